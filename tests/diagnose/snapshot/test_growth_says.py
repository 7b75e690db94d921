"""What is said of steps, by recordings written event by event."""

from __future__ import annotations

import pytest

from oomph.diagnose.snapshot.growth import growth_of
from oomph.diagnose.snapshot.model import Growth
from oomph.units import MIB
from tests.diagnose.snapshot.recorded import (
    ACCUMULATE,
    BACKWARD,
    FORWARD,
    MAIN,
    SCRATCH,
    STATE,
    Recorder,
    Stack,
    user,
)

EVALUATE = (*FORWARD[:-2], user("evaluate", "train.py", 70), *MAIN)


def trained(steps: int, odd: int, more: int, stack: Stack) -> Growth:
    """So many steps; `odd` has `more` bytes at once in its forward, or wherever `stack` is."""
    recorder = Recorder()
    for number in range(steps):
        kept = recorder.alloc(2 * MIB, FORWARD)
        if number == odd:
            recorder.temporary(more, stack)
        recorder.temporary(MIB, BACKWARD)
        recorder.free(kept)
        gradient = recorder.alloc(4 * MIB, ACCUMULATE)
        if not number:
            recorder.alloc(4 * MIB, STATE)
            recorder.alloc(4 * MIB, STATE)
            recorder.alloc(2 * MIB, MAIN)
        recorder.temporary(4 * MIB, SCRATCH)
        recorder.free(gradient)
    return growth_of(recorder.analysis(), None)


def test_what_the_first_step_left_is_named_by_what_it_is():
    growth = trained(6, odd=-1, more=0, stack=FORWARD)
    assert growth.first_step_bytes == 10 * MIB
    assert growth.says == (
        "Nothing grows over the 6 steps of the trace. The first step left 10.00 MiB for good (8.00 MiB optimizer "
        "state, 2.00 MiB unknown); later steps did not."
    )


@pytest.mark.parametrize(
    ("stack", "why"),
    [(FORWARD, "a longer batch"), (EVALUATE, "in evaluation"), (SCRATCH, "in the optimizer step")],
)
def test_why_a_step_stands_out(stack: Stack, why: str):
    growth = trained(6, odd=3, more=64 * MIB, stack=stack)
    assert growth.longest_step == 3
    assert f"is usual: {why}, not growth." in growth.says
