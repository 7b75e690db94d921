from __future__ import annotations

from oomph.diagnose.machine.checks.env505_swap import SwapInUse
from oomph.units import GIB
from tests.diagnose.machine.built import NOTE, WARNING, clear, environment, host, not_here, problem, untold


def test_in_use() -> None:
    """6 of 8 GiB used; 2 of 64 GiB of RAM available are less than a tenth, 20 are more."""
    swap = {"swap_bytes": 8 * GIB, "swap_free_bytes": 2 * GIB, "ram_bytes": 64 * GIB}
    pressed = problem(SwapInUse, environment(host=host(**swap, available_bytes=2 * GIB)))
    assert pressed.severity is WARNING
    assert pressed.numbers["swap_used_bytes"] == 6 * GIB
    assert problem(SwapInUse, environment(host=host(**swap, available_bytes=20 * GIB))).severity is NOTE
    assert problem(SwapInUse, environment(host=host(**swap))).severity is NOTE


def test_both_sides_of_one_gib() -> None:
    used = host(swap_bytes=8 * GIB, swap_free_bytes=7 * GIB)
    problem(SwapInUse, environment(host=used))
    clear(SwapInUse, environment(host=host(swap_bytes=8 * GIB, swap_free_bytes=7 * GIB + 1)))


def test_others() -> None:
    clear(SwapInUse, environment(host=host(swap_bytes=0)))
    untold(SwapInUse, environment(host=host(swap_bytes=GIB)))
    assert not_here(SwapInUse, environment())
