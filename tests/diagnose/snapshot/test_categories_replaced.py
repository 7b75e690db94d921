"""Optimizers that make new blocks instead of writing into the old ones."""

from __future__ import annotations

import pytest

from oomph.units import MIB
from tests.diagnose.snapshot.recorded import (
    ACCUMULATE,
    BACKWARD,
    FORWARD,
    MAIN,
    STATE,
    Recorder,
    Stack,
    told,
    torch,
    user,
)


def statement(line: int) -> Stack:
    return (user("step", "optimizer.py", line), torch("wrapper", "optim/optimizer.py"), *MAIN)


MADE = (user("__init__", "linear.py"), user("__init__", "block.py"), *MAIN)


class Adam:
    """m = ...; v = ...; p.data = p.data - ...; p.data = p.data - decay * p.data. The old m and v are held by the loop's
    variables until the next parameter's turn, as in a real snapshot; old parameters go at once."""

    def __init__(self, parameters: int, older: bool) -> None:
        self.recorder = Recorder()
        make = self.recorder.before if older else self.recorder.alloc
        self.parameters = [make(4 * MIB, () if older else MADE) for _ in range(parameters)]
        made = () if older else (user("__init__", "optimizer.py"), *MAIN)
        self.states = [[make(4 * MIB, made) for _ in range(2)] for _ in range(parameters)]
        self.everything: dict[int, str] = {}

    def step(self, accumulate: bool = True) -> None:
        recorder = self.recorder
        recorder.temporary(MIB, FORWARD)
        recorder.temporary(MIB, BACKWARD)
        gradients = [recorder.alloc(4 * MIB, ACCUMULATE) for _ in self.parameters] if accumulate else []
        held: dict[int, int] = {}
        for number, states in enumerate(self.states):
            for which, line in enumerate((51, 56)):
                states[which] = self._keep(line, states[which], held, which)
            scratch = recorder.alloc(4 * MIB, statement(63))
            between = recorder.alloc(4 * MIB, statement(63))
            recorder.free(scratch, self.parameters[number])
            self.parameters[number] = recorder.alloc(4 * MIB, statement(64))
            recorder.free(between)
        recorder.free(*held.values(), *gradients)

    def _keep(self, line: int, old: int, held: dict[int, int], which: int) -> int:
        new = self.recorder.alloc(4 * MIB, statement(line))
        if which in held:
            self.recorder.free(held.pop(which))
        held[which] = old
        return new


def test_a_parameter_that_is_replaced_twice_in_a_step_is_followed():
    job = Adam(3, older=False)
    for _ in range(3):
        job.step()
    analysis = job.recorder.analysis()
    assert {told(analysis, one) for one in job.parameters} == {("parameters", "lifetime", "possible")}
    assert {told(analysis, one)[0] for pair in job.states for one in pair} == {"optimizer state"}


def test_without_known_parameters_the_last_statement_keeps_them():
    """Everything is older than the trace: three kept blocks for each gradient."""
    job = Adam(3, older=True)
    for _ in range(2):
        job.step()
    analysis = job.recorder.analysis()
    assert {told(analysis, one) for one in job.parameters} == {("parameters", "lifetime", "possible")}
    states = {told(analysis, one) for pair in job.states for one in pair}
    assert states == {("optimizer state", "lifetime", "possible")}


def test_without_gradients_either_nothing_is_likely():
    job = Adam(3, older=True)
    for _ in range(2):
        job.step(accumulate=False)
    analysis = job.recorder.analysis()
    kept = [*job.parameters, *(one for pair in job.states for one in pair)]
    assert {told(analysis, one)[2] for one in kept} == {"possible"}


def test_states_without_stacks_live_on_to_the_next_step():
    """Only PyTorch's own ranges tell where an optimizer steps: what a step replaces was no temporary."""
    recorder = Recorder(stacks=False)
    states = [recorder.before(4 * MIB)]
    for _ in range(3):
        for _ in range(3):
            recorder.temporary(MIB, FORWARD)
        recorder.annotate("Optimizer.step#Adam.step", "START")
        recorder.temporary(MIB, FORWARD)
        states.append(recorder.alloc(4 * MIB, FORWARD))
        recorder.free(states[-2])
        recorder.temporary(MIB, FORWARD)
        recorder.annotate("Optimizer.step#Adam.step", "END")
    analysis = recorder.analysis()
    assert {told(analysis, one)[0] for one in states[1:]} == {"optimizer state"}


@pytest.mark.parametrize(("stack", "certainty"), [(statement(51), "possible"), (STATE, "likely")])
def test_what_an_optimizer_left_before_the_trace(stack: Stack, certainty: str):
    """One of the user's own may have left a parameter, one of a library leaves its state."""
    recorder = Recorder()
    older = recorder.before(4 * MIB, stack)
    recorder.temporary(MIB, FORWARD)
    assert told(recorder.analysis(), older) == ("optimizer state", "frames", certainty)


def test_gradients_that_zero_grad_drops_are_no_states():
    """The trace begins in an optimizer's step: five gradients from before it go at once behind its last request."""
    recorder = Recorder()
    gradients = [recorder.before(4 * MIB) for _ in range(5)]
    states = [recorder.before(4 * MIB) for _ in range(5)]
    for old in states:
        recorder.alloc(4 * MIB, statement(51))
        recorder.free(old)
        recorder.temporary(MIB, statement(63))
    recorder.free(*gradients)
    recorder.temporary(MIB, FORWARD)
    analysis = recorder.analysis()
    assert {told(analysis, one) for one in gradients} == {("gradients", "lifetime", "possible")}
    assert {told(analysis, one) for one in states} == {("optimizer state", "lifetime", "possible")}
