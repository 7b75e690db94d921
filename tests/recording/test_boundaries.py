from __future__ import annotations

import threading

from oomph.evidence.run.model import PhaseRecord, StepRecord
from oomph.phases import Phase
from oomph.recording.book import Book
from oomph.recording.boundaries import BETWEEN, Boundaries
from tests.recording.devices import MIB, FakeDevice


class Bench:
    def __init__(self):
        self.device = FakeDevice()
        self.records: list = []
        self.nows: list = []
        self.phases = Boundaries(
            self.device, Book(self.records.append, 0.0), now=self.nows.append, host=lambda: None
        )
        self.phases.tells_forward = False

    def ended(self) -> list[tuple]:
        return [
            (one.phase.value, one.step, one.counters.peak_allocated_bytes // MIB)
            for one in self.records
            if isinstance(one, PhaseRecord)
        ]


def test_a_step_by_arithmetic():
    bench = Bench()
    phases, device = bench.phases, bench.device
    device.take(100 * MIB)  # parameters
    for _ in range(2):
        opened = phases.begin(Phase.FORWARD)
        phases.batch({"input_ids": (2, 8)})
        device.take(50 * MIB)
        phases.end(opened)
        device.take(7 * MIB)  # the loss, after the model's forward
        device.give(7 * MIB)
        opened = phases.begin(Phase.BACKWARD)
        device.take(100 * MIB)
        device.give(50 * MIB)
        phases.end(opened)
        opened = phases.begin(Phase.OPTIMIZER)
        device.take(30 * MIB)
        device.give(30 * MIB)
        phases.end(opened)
        phases.step_done()
        device.give(100 * MIB)  # gradients are set to None
    phases.finish()
    assert bench.ended() == [
        ("load", -1, 100),
        ("forward", 0, 157),
        ("backward", 0, 250),
        ("optimizer", 0, 230),
        ("forward", 1, 157),  # from what was there when it began, not from the gradients before
        ("backward", 1, 250),
        ("optimizer", 1, 230),
    ]
    steps = [one for one in bench.records if isinstance(one, StepRecord)]
    assert [one.counters.peak_allocated_bytes // MIB for one in steps] == [250, 250]
    assert [one.counters.allocated_bytes // MIB for one in steps] == [200, 200]
    assert steps[0].batch == {"input_ids": (2, 8)}
    forward = bench.records[1]
    assert forward.start_allocated_bytes == 100 * MIB
    assert forward.counters.allocated_bytes == 150 * MIB


def test_a_peak_between_phases_is_told_by_itself():
    bench = Bench()
    phases, device = bench.phases, bench.device
    device.take(100 * MIB)
    opened = phases.begin(Phase.OPTIMIZER)
    phases.end(opened)
    phases.step_done()
    device.take(500 * MIB)  # augmentation on the device
    device.give(490 * MIB)
    opened = phases.begin(Phase.FORWARD)
    device.take(20 * MIB)
    phases.finish()
    assert bench.ended() == [
        ("load", -1, 100),
        ("optimizer", 0, 100),
        ("unknown", 1, 600),
        ("forward", 1, 130),
    ]
    assert bench.records[-2].where == BETWEEN


def test_an_inner_phase_has_peaks_of_its_own():
    bench = Bench()
    phases, device = bench.phases, bench.device
    outer = phases.begin(Phase.OPTIMIZER)
    device.take(10 * MIB)
    inner = phases.begin(Phase.FORWARD)
    device.take(90 * MIB)
    device.give(90 * MIB)
    phases.end(inner)
    phases.end(phases.begin(Phase.BACKWARD))
    device.take(5 * MIB)
    phases.end(outer)
    assert bench.ended() == [
        ("load", -1, 0),
        ("forward", 0, 100),
        ("backward", 0, 10),
        ("optimizer", 0, 15),
    ]


def test_what_hooks_see_inside_of_a_phase_is_part_of_it():
    for outer in (Phase.BACKWARD, Phase.GENERATE, Phase.SAVE, Phase.EVAL, Phase.FORWARD):
        bench = Bench()
        opened = bench.phases.begin(outer)
        assert bench.phases.begin(Phase.FORWARD) is None
        bench.phases.end(None)
        bench.device.take(MIB)
        bench.phases.end(opened)
        bench.phases.finish()
        assert bench.ended()[-1][0] == outer.value


def test_two_forwards_of_a_step_are_one_phase():
    bench = Bench()
    for _ in range(2):
        bench.phases.end(bench.phases.begin(Phase.FORWARD))
    bench.phases.finish()
    assert [one.times for one in bench.records] == [1, 2]


def test_without_a_model_what_lies_before_backward_is_the_forward():
    bench = Bench()
    bench.phases.tells_forward = True
    phases, device = bench.phases, bench.device
    device.take(10 * MIB)
    phases.end(phases.begin(Phase.BACKWARD))
    phases.end(phases.begin(Phase.OPTIMIZER))
    phases.step_done()
    device.take(30 * MIB)
    phases.end(phases.begin(Phase.BACKWARD))
    phases.finish()
    assert bench.ended() == [
        ("load", -1, 10),
        ("backward", 0, 10),
        ("optimizer", 0, 10),
        ("forward", 1, 40),
        ("backward", 1, 40),
    ]


def test_a_step_inside_of_the_users_optimizer_phase_comes_after_it():
    bench = Bench()
    opened = bench.phases.begin(Phase.OPTIMIZER, explicit=True)
    bench.phases.step_done()
    assert not any(isinstance(one, StepRecord) for one in bench.records)
    bench.phases.end(opened)
    assert isinstance(bench.records[-1], StepRecord)
    assert bench.phases.step == 1


def test_an_exception_ends_the_phase_at_once_and_those_inside_of_it():
    bench = Bench()
    outer = bench.phases.begin(Phase.UNKNOWN, "mine", explicit=True)
    bench.phases.begin(Phase.FORWARD)
    bench.phases.end(outer, "ValueError")
    assert [(one.phase.value, one.raised) for one in bench.records[1:]] == [
        ("forward", "ValueError"),
        ("unknown", "ValueError"),
    ]
    bench.phases.end(outer)  # a second time is nothing
    assert bench.phases.current().where == BETWEEN


def test_a_forward_whose_end_was_never_heard_of():
    bench = Bench()
    bench.phases.begin(Phase.FORWARD, by=7)
    bench.phases.end(bench.phases.begin(Phase.FORWARD, by=7))
    bench.phases.finish()
    assert [(one.phase.value, one.raised) for one in bench.records[1:]] == [
        ("forward", "interrupted"),
        ("forward", ""),
    ]


def test_what_goes_on_is_written_down_at_each_boundary():
    bench = Bench()
    opened = bench.phases.begin(Phase.FORWARD)
    bench.phases.end(opened)
    assert bench.phases.current().phase is Phase.FORWARD
    bench.phases.end(bench.phases.begin(Phase.OPTIMIZER))
    assert [(now.phase.value, now.step, now.over) for now in bench.nows] == [
        ("load", -1, False),
        ("forward", 0, False),
        ("optimizer", 0, False),
        ("optimizer", 0, True),
    ]


def test_the_whole_card_is_read_first_and_when_the_peak_is_much_higher():
    bench = Bench()
    phases, device = bench.phases, bench.device
    for _ in range(20):
        phases.end(phases.begin(Phase.OPTIMIZER))
    assert device.wholes == 1
    device.take(100 * MIB)
    for _ in range(20):
        phases.end(phases.begin(Phase.OPTIMIZER))
    assert device.wholes == 2
    device.take(4 * MIB)
    phases.end(phases.begin(Phase.OPTIMIZER))
    assert device.wholes == 2


def test_threads_do_not_hold_each_other_up():
    bench = Bench()

    def work():
        for _ in range(200):
            opened = bench.phases.begin(Phase.UNKNOWN, threading.current_thread().name, explicit=True)
            bench.phases.end(opened)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    bench.phases.finish()
    assert not any(thread.is_alive() for thread in threads)
    assert bench.phases.current().where == BETWEEN
