"""What filling a parameter with a truncated normal distribution takes."""

from __future__ import annotations

from oomph.tracing.frontend.truncated_normal import redraws
from tests.tracing.programs import traced

MIB = 1 << 20

_PROGRAM = """
x = torch.empty(1024, 1024, device="cuda")
mark()
torch.nn.init.trunc_normal_(x, std=0.02, a=-0.06, b=0.06)
mark()
"""


def test_up_to_2_11_nothing():
    assert traced(_PROGRAM, torch=(2, 11)).events == [("alloc", 4 * MIB)]


def test_from_2_12_on_masks_and_two_more_copies():
    events = traced(_PROGRAM, torch=(2, 12)).events[1:]
    held = peak = 0
    for kind, size in events:
        held += size if kind == "alloc" else -size
        peak = max(peak, held)
    # Of 2**20 values 0.27 % lie beyond three deviations, of those again 0.27 %, and so on: 2,831, then 8, then 0.02.
    # In the second round: the values of the first, new ones, both together, and a mask.
    assert events.count(("alloc", 4 * MIB)) == 4
    assert peak == 3 * 4 * MIB + MIB
    assert held == 0


def test_how_often():
    assert redraws(1 << 20, 0, 0.02, -0.06, 0.06) == 2
    # Nothing lies beyond a hundred deviations (the defaults of vision models: std 0.02 within -2 and 2).
    assert redraws(1 << 30, 0, 0.02, -2, 2) == 0
    # Far from the mean torch draws otherwise.
    assert redraws(1 << 20, 0, 1, 5, 6) is None
    assert redraws(1 << 20, 0, 0, -1, 1) is None
