"""Phases of events, and training steps."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.model import How
from oomph.phases import Phase
from oomph.units import MIB
from tests.diagnose.snapshot.recorded import (
    BACKWARD,
    BATCH,
    FORWARD,
    LOAD,
    MAIN,
    SCRATCH,
    SEED,
    STATE,
    Recorder,
    user,
)

EVALUATE = (*FORWARD[:-2], user("evaluate"), *MAIN)


def phases(recorder: Recorder) -> list[str]:
    """One letter per event."""
    return [str(tuple(Phase)[one])[0] for one in recorder.analysis().event_phase]


def step(recorder: Recorder, passes: int = 1, optimizer: bool = True, layers: int = 3) -> int:
    """A training step; returns its first position."""
    first = recorder.position
    for _ in range(passes):
        kept = [recorder.alloc((layer + 1) * MIB, FORWARD) for layer in range(layers)]
        recorder.temporary(512, SEED)
        for one in reversed(kept):
            recorder.temporary(3 * MIB, BACKWARD)
            recorder.free(one)
    if optimizer:
        recorder.temporary(5 * MIB, SCRATCH)
    return first


def test_events_go_with_the_requests_around_them():
    recorder = Recorder()
    recorder.alloc(MIB, LOAD)
    kept = recorder.alloc(MIB, FORWARD)
    recorder.alloc(MIB, BACKWARD)
    recorder.free(kept)
    recorder.alloc(MIB, STATE)
    assert phases(recorder) == ["l", "f", "b", "b", "b", "o"]


def test_a_request_that_says_nothing_is_unknown_even_between_two_of_one_phase():
    recorder = Recorder()
    for stack in (FORWARD, MAIN, FORWARD):
        recorder.alloc(MIB, stack)
    assert phases(recorder) == ["f", "u", "f"]


def test_what_an_exception_frees_has_no_phase():
    recorder = Recorder()
    kept = recorder.alloc(MIB, FORWARD)
    recorder.oom(MIB, FORWARD)
    recorder.free(kept)
    recorder.alloc(MIB, FORWARD)
    assert phases(recorder) == ["f", "f", "u", "u", "f"]


def test_an_optimizers_range_speaks_for_requests_without_stacks():
    recorder = Recorder(stacks=False)
    recorder.alloc(MIB)
    recorder.annotate("Optimizer.step#SGD.step", "START")
    recorder.alloc(MIB)
    recorder.annotate("Optimizer.step#SGD.step", "END")
    recorder.alloc(MIB)
    assert phases(recorder) == ["u", "o", "u"]


def test_without_python_frames_a_request_is_backwards_if_passes_show():
    recorder = Recorder(python_only=True)
    recorder.alloc(MIB, FORWARD)
    recorder.alloc(MIB, BACKWARD)  # no Python in it: recorded without a stack
    recorder.alloc(512, SEED)
    assert phases(recorder) == ["f", "b", "b"]


def test_without_python_frames_nothing_is_guessed_where_no_pass_shows():
    recorder = Recorder(python_only=True)
    recorder.alloc(MIB, MAIN)
    recorder.alloc(MIB, BACKWARD)
    assert phases(recorder) == ["u", "u"]


def test_with_frames_of_cpp_a_missing_stack_says_nothing():
    recorder = Recorder()
    recorder.alloc(MIB, FORWARD)
    recorder.alloc(MIB)
    assert phases(recorder) == ["f", "u"]


@pytest.mark.parametrize("passes", [1, 4])
def test_a_step_is_what_one_optimizer_step_ends(passes: int):
    recorder = Recorder()
    recorder.alloc(MIB, LOAD)
    begins = [step(recorder, passes) for _ in range(3)]
    steps = recorder.analysis().steps
    assert steps.count == 3
    assert list(steps.first_positions) == begins
    assert steps.how is How.FRAMES
    assert steps.certainty is Certainty.LIKELY


def test_an_optimizer_inside_backward_makes_one_step():
    recorder = Recorder()
    begins = []
    for _ in range(3):
        begins.append(recorder.position)
        kept = [recorder.alloc(MIB, FORWARD) for _ in range(4)]
        for one in kept:
            recorder.temporary(MIB, BACKWARD)
            recorder.temporary(2 * MIB, SCRATCH)
            recorder.free(one)
        recorder.temporary(MIB, BACKWARD)
    steps = recorder.analysis().steps
    assert list(steps.first_positions) == begins
    assert steps.count == 3


def test_a_batch_belongs_to_the_step_it_is_for_and_evaluation_to_none():
    recorder = Recorder()
    step(recorder)
    second = recorder.position
    recorder.temporary(MIB, BATCH)
    step(recorder)
    recorder.temporary(MIB, EVALUATE)
    third = recorder.position
    recorder.temporary(MIB, BATCH)
    step(recorder)
    assert list(recorder.analysis().steps.first_positions) == [0, second, third]


def test_an_optimizer_that_allocates_in_its_first_step_only():
    recorder = Recorder()
    begins = []
    for number in range(4):
        begins.append(step(recorder, optimizer=False))
        if not number:
            recorder.alloc(MIB, STATE)
    steps = recorder.analysis().steps
    assert list(steps.first_positions) == begins
    assert steps.certainty is Certainty.POSSIBLE


def test_without_an_optimizer_a_forward_after_a_backward_begins_a_step():
    recorder = Recorder()
    begins = [step(recorder, optimizer=False) for _ in range(3)]
    steps = recorder.analysis().steps
    assert list(steps.first_positions) == begins
    assert steps.count == 3
    assert steps.certainty is Certainty.POSSIBLE


def test_accumulation_shows_where_gradients_are_dropped():
    recorder = Recorder()
    begins = []
    for _ in range(3):
        begins.append(recorder.position)
        gradient = 0
        for number in range(4):
            step(recorder, optimizer=False)
            gradient = gradient if number else recorder.alloc(64 * MIB, BACKWARD)
            recorder.temporary(512, BACKWARD)
        recorder.free(gradient)
    steps = recorder.analysis().steps
    assert list(steps.first_positions) == begins
    assert steps.count == 3
    assert steps.certainty is Certainty.POSSIBLE


def test_accumulation_that_the_first_step_alone_shows():
    recorder = Recorder()
    begins = []
    for number in range(4):
        begins.append(step(recorder, passes=3, optimizer=False))
        if not number:
            recorder.alloc(MIB, STATE)
    steps = recorder.analysis().steps
    assert list(steps.first_positions) == begins
    assert "every 3 backward passes" in steps.why


def test_a_step_that_is_cut_off_begins_but_does_not_count():
    recorder = Recorder()
    step(recorder, layers=8)
    step(recorder, layers=8)
    third = recorder.position
    recorder.alloc(MIB, FORWARD)
    recorder.oom(MIB, FORWARD)
    steps = recorder.analysis().steps
    assert steps.count == 2
    assert steps.first_positions[2:] == (third,)
    assert "cut off" in steps.why


def test_a_step_that_is_mostly_there_counts():
    recorder = Recorder()
    step(recorder, layers=8)
    step(recorder, layers=8, optimizer=False)
    steps = recorder.analysis().steps
    assert steps.count == 2


def test_optimizer_ranges_come_before_frames():
    recorder = Recorder()
    begins = []
    for _ in range(3):
        begins.append(step(recorder, optimizer=False))
        recorder.annotate("Optimizer.step#AdamW.step", "START")
        recorder.temporary(MIB, MAIN)
        recorder.annotate("Optimizer.step#AdamW.step", "END")
        recorder.annotate("Optimizer.zero_grad#AdamW.zero_grad", "START")
        recorder.annotate("Optimizer.zero_grad#AdamW.zero_grad", "END")
    steps = recorder.analysis().steps
    assert steps.how is How.ANNOTATIONS
    assert list(steps.first_positions) == begins
    assert steps.count == 3


def test_optimizer_ranges_tell_steps_without_stacks_too():
    recorder = Recorder(stacks=False)
    begins = []
    for _ in range(3):
        begins.append(step(recorder, optimizer=False))
        recorder.annotate("Optimizer.step#AdamW.step", "START")
        recorder.temporary(MIB, MAIN)
        recorder.annotate("Optimizer.step#AdamW.step", "END")
    assert list(recorder.analysis().steps.first_positions) == begins


def test_two_optimizers_that_take_turns_are_one_step():
    recorder = Recorder()
    begins = []
    for _ in range(3):
        begins.append(step(recorder, optimizer=False))
        for name in ("Optimizer.step#Adam.step", "Optimizer.step#SGD.step"):
            recorder.annotate(name, "START")
            recorder.temporary(MIB, SCRATCH)
            recorder.annotate(name, "END")
    assert list(recorder.analysis().steps.first_positions) == begins


def test_the_profilers_steps_come_first():
    recorder = Recorder()
    begins = []
    for number in range(3):
        begins.append(recorder.position)
        recorder.annotate(f"ProfilerStep#{number}", "START")
        step(recorder)
        step(recorder)
        if number < 2:  # the last one is open when the snapshot is taken
            recorder.annotate(f"ProfilerStep#{number}", "END")
    steps = recorder.analysis().steps
    assert list(steps.first_positions) == begins
    assert steps.certainty is Certainty.CERTAIN


def test_inference_has_no_steps():
    recorder = Recorder()
    for _ in range(4):
        for size in range(1, 9):
            recorder.temporary(size * MIB, FORWARD)
    steps = recorder.analysis().steps
    assert steps.count == 0
    assert steps.first_positions == ()
    assert "no backward" in steps.why


def repeated(recorder: Recorder, layers: int, times: int) -> list[int]:
    """Steps without stacks: each asks for the same sizes; what forward keeps backward frees."""
    begins = []
    for _ in range(times):
        begins.append(recorder.position)
        kept = []
        for layer in range(layers):
            kept.append(recorder.alloc((layer % 7 + 1) * MIB + layer * 512))
            recorder.temporary(MIB, ())
        while kept:
            recorder.temporary(2 * MIB, ())
            recorder.free(kept.pop())
    return begins


def test_sizes_that_repeat_are_steps_possibly():
    recorder = Recorder(stacks=False)
    recorder.before(64 * MIB)
    begins = repeated(recorder, layers=60, times=5)
    steps = recorder.analysis().steps
    assert steps.how is How.PERIOD
    assert steps.certainty is Certainty.POSSIBLE
    assert list(steps.first_positions) == begins
    assert steps.count == 5
    assert "180 requests" in steps.why  # 60 kept, 60 and 60 temporaries


def test_what_comes_before_the_loop_is_no_step():
    recorder = Recorder(stacks=False)
    for number in range(40):
        recorder.alloc(number * 4096 + 512)
    begins = repeated(recorder, layers=60, times=5)
    assert list(recorder.analysis().steps.first_positions) == begins


def test_layers_of_one_forward_are_no_steps():
    recorder = Recorder(stacks=False)
    for _ in range(24):
        for part in range(120):
            recorder.alloc(MIB + part * 512)
            recorder.temporary(2 * MIB, ())
    steps = recorder.analysis().steps
    assert steps.count == 0
    assert steps.first_positions == ()


def test_sizes_that_never_repeat_are_no_steps():
    recorder = Recorder(stacks=False)
    for number in range(1, 500):
        recorder.temporary(number * number * 512, ())
    assert recorder.analysis().steps.count == 0


def test_a_trace_without_requests():
    recorder = Recorder()
    recorder.free(recorder.before(MIB))
    steps = recorder.analysis().steps
    assert (steps.count, steps.first_positions) == (0, ())
    assert phases(recorder) == ["u", "u"]


def test_a_first_forward_that_nothing_tells_was_begun():
    """The stacks of forward say nothing, as with C++ frames alone: the step is whole. One begun in backward is not."""
    for forward, count in ((4, 1), (0, 0)):
        recorder = Recorder(stacks=False)
        for _ in range(forward):
            recorder.alloc(MIB)
        recorder.annotate("backward", "START")
        for _ in range(8):
            recorder.temporary(MIB, BACKWARD)
        recorder.annotate("backward", "END")
        recorder.annotate("Optimizer.step#SGD.step", "START")
        recorder.temporary(MIB, SCRATCH)
        recorder.annotate("Optimizer.step#SGD.step", "END")
        assert recorder.analysis().steps.count == count
