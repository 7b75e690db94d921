"""What a traced run needs, from traces of which every number is known."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from oomph.diagnose.snapshot.build import analyse, report_of
from oomph.diagnose.trace.build import trace_report
from oomph.diagnose.trace.model import Part, StepPeak, TraceReport
from oomph.errors import InputError
from oomph.evidence.snapshot import from_bytes
from oomph.memory.allocator.errors import DeviceOutOfMemory
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.report.bar import render_bar
from oomph.report.options import ReportOptions
from oomph.report.snapshot.text_failure import failure_rows
from oomph.report.trace.words import headline
from oomph.tracing.model import Failed, Trace
from oomph.tracing.write import content
from oomph.units import MIB
from tests.tracing.made import Maker, one_more_step, out_of_memory, training


def report(trace: Trace) -> TraceReport:
    snapshot = from_bytes(pickle.dumps(content(trace), protocol=4), "trace.pickle")
    analyses = analyse(snapshot)
    return trace_report(
        report_of(snapshot, analyses=analyses), snapshot.traced, analyses, "train.py --batch 8"
    )


def test_the_peaks_of_phases() -> None:
    """Made by hand: see made.training; a reserved peak is a sum of segments, and never falls."""
    found = report(training(Maker()).trace())
    device = found.shown
    assert device is not None
    peaks = device.prediction.phases
    assert list(peaks) == [Phase.LOAD, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER]
    assert {phase: peak.allocated_bytes // MIB for phase, peak in peaks.items()} == {
        Phase.LOAD: 100,
        Phase.FORWARD: 100 + 200 + 200,
        Phase.BACKWARD: 100 + 200 + 200 + 30 + 60,
        # Weights, gradients, states.
        Phase.OPTIMIZER: 100 + 100 + 200,
    }
    # Two weights of their own segments, whatever the addresses.
    load = peaks[Phase.LOAD]
    assert (load.reserved_low_bytes, load.reserved_bytes, load.reserved_high_bytes) == (100 * MIB,) * 3
    backward = peaks[Phase.BACKWARD]
    assert backward.reserved_low_bytes >= 590 * MIB
    assert device.peak_phase is Phase.FORWARD or backward.most_bytes == device.prediction.peak.most_bytes
    assert found.fits is None
    assert found.exit_code == 0


def test_the_first_step_is_told_from_later_ones() -> None:
    device = report(training(Maker()).trace()).shown
    assert device is not None
    # Without states 390 MiB in backward; then 400 in the optimizer, which makes them.
    assert device.first_step is not None
    assert (device.first_step.step, device.first_step.allocated_bytes) == (0, 400 * MIB)
    assert device.fullest_step is not None
    assert device.fullest_step == StepPeak(1, 590 * MIB, device.fullest_step.reserved_bytes)


def test_activations_by_module_and_temporaries_by_operator() -> None:
    device = report(training(Maker()).trace()).shown
    assert device is not None
    assert device.activations == (Part("layers.*.mlp", 200 * MIB, 2, 100 * MIB, 6),)
    assert device.temporaries == (Part("aten.mm", 30 * MIB, 1, 30 * MIB, 3),)


def test_a_card_with_room_fits_and_a_small_one_does_not() -> None:
    assert report(training(Maker(capacity=2048 * MIB)).trace()).fits is True
    found = report(out_of_memory(Maker(capacity=250 * MIB)))
    assert found.fits is False
    assert found.exit_code == 1
    device = found.shown
    assert device is not None
    assert device.prediction.fails_in is Phase.FORWARD
    assert device.prediction.surely_fails


def test_a_failure_that_the_script_caught_is_none() -> None:
    maker = Maker(capacity=250 * MIB)
    with pytest.raises(DeviceOutOfMemory):
        training(maker)
    # The script catches it and ends, as one that looks for its batch size does.
    found = report(maker.trace())
    assert found.snapshot.devices[0].failure is not None
    assert found.snapshot.devices[0].failure.caught
    assert found.snapshot.exit_code == 0
    assert found.snapshot.devices[0].moment.kind == "peak allocated"
    device = found.shown
    assert device is not None
    assert not device.ran_out
    assert device.prediction.fits is True
    assert headline(found).endswith("; 1 request failed on the way, and the script went on")


def test_an_out_of_memory_error_without_a_failed_request_does_not_fit_either() -> None:
    failed = Failed("torch.OutOfMemoryError", "a cap of the script's own", "", True)
    found = report(training(Maker(capacity=2048 * MIB)).trace(failed=failed))
    assert (found.fits, found.exit_code) == (False, 1)
    assert headline(found).startswith("It does not fit: the script ended with torch.OutOfMemoryError")


def test_what_kernels_may_take_more_counts() -> None:
    capacity = 800 * MIB
    trace = training(Maker(capacity=capacity)).trace()
    assert report(trace).fits is True
    unsure = training(Maker(capacity=capacity)).trace(uncertain_bytes=500 * MIB)
    found = report(unsure)
    assert found.fits is False
    device = found.shown
    assert device is not None
    assert device.prediction.phases[Phase.LOAD].uncertain_bytes == 0
    # 300 MiB are left that are certain to be there: two activations on the weights fit, the temporary does not.
    assert device.prediction.fails_in is Phase.BACKWARD


def test_a_script_that_failed_by_itself_gives_no_answer() -> None:
    failed = Failed("ValueError", "no such file", "Traceback ...", False)
    found = report(training(Maker(capacity=2048 * MIB)).trace(failed=failed))
    assert found.exit_code == 2
    assert found.failed is not None
    assert found.failed.kind == "ValueError"


def test_operators_without_a_rule_are_listed_largest_first() -> None:
    found = report(training(Maker()).trace(unruled={"aten.a": (9, 512), "aten.b": (1, 1024)}))
    assert [(one.operator, one.times) for one in found.unruled] == [("aten.b", 1), ("aten.a", 9)]


def test_memory_that_only_one_phase_holds() -> None:
    maker = Maker()
    maker.phase = Phase.EVAL
    maker.alloc("a", 3 * MIB, Category.ACTIVATIONS, "layer")
    maker.free("a")
    device = report(maker.trace()).shown
    assert device is not None
    assert device.prediction.phases[Phase.EVAL].allocated_bytes == 3 * MIB
    assert device.first_step is None


def test_a_script_that_allocates_nothing_needs_nothing() -> None:
    empty = Trace(0, 1, "A100", "2.13", "2.13.0", (), None, "", 0, 0, 0.1)
    found = report(empty)
    assert found.shown is None
    assert (found.fits, found.exit_code) == (None, 0)


def test_a_real_snapshot_is_no_trace() -> None:
    plain = {key: value for key, value in content(training(Maker()).trace()).items() if key != "oomph"}
    snapshot = from_bytes(pickle.dumps(plain, protocol=4), "real.pickle")
    analyses = analyse(snapshot)
    with pytest.raises(InputError, match="not one that oomph traced"):
        trace_report(report_of(snapshot, analyses=analyses), snapshot.traced, analyses)


def test_of_several_gpus_the_one_that_does_not_fit_is_shown() -> None:
    """The second is full, the first has more memory in use."""
    first = training(Maker(capacity=4096 * MIB))
    second = out_of_memory(Maker(capacity=250 * MIB))
    devices = (first.trace().devices[0], replace(second.devices[0], index=1))
    found = report(replace(second, devices=devices, capacity_bytes=4096 * MIB))
    assert found.fits is False
    assert found.shown is not None
    assert (found.shown.index, found.shown.ran_out) == (1, True)
    assert headline(found).startswith("It does not fit: a request of 100.00 MiB fails in forward")


def test_of_several_gpus_that_fit_the_fullest_is_shown() -> None:
    small = Maker(capacity=4096 * MIB)
    small.alloc("w", 30 * MIB, Category.PARAMETERS, "w")
    large = training(Maker(capacity=4096 * MIB)).trace()
    devices = (small.trace().devices[0], replace(large.devices[0], index=1))
    found = report(replace(large, devices=devices))
    assert found.fits is True
    assert found.shown is not None
    assert found.shown.index == 1
    assert headline(found).startswith("It fits: GPU 1 needs")


def test_phases_that_nobody_knows() -> None:
    maker = Maker()
    maker.phase = Phase.UNKNOWN
    maker.alloc("a", 3 * MIB, Category.UNKNOWN)
    found = report(maker.trace())
    device = found.shown
    assert device is not None
    assert list(device.prediction.phases) == [Phase.UNKNOWN]
    assert "needs 20.00 MiB" in headline(found)


def test_steps_and_phases_give_one_number_for_one_peak() -> None:
    """A request of 11.5 MiB has a segment of 12, one of 31.5 has 32 (segments of 2 MiB, large_segment_size of
    CUDACachingAllocator.cpp), and a rest below 1 MiB stays with its block."""
    device = report(training(Maker(), activation=23 * MIB // 2, temporary=63 * MIB // 2).trace()).shown
    assert device is not None
    assert device.fullest_step is not None
    # Weights, states, the activation that is left, the temporary, both gradients.
    assert device.fullest_step.allocated_bytes == (100 + 200 + 12 + 32 + 100) * MIB
    assert device.prediction.phases[Phase.BACKWARD].allocated_bytes == device.fullest_step.allocated_bytes


def test_the_most_of_the_later_steps_is_that_of_the_phases() -> None:
    maker = training(Maker(), steps=2)
    # Less at once than in step 1, but no free block has room for these.
    one_more_step(maker, 2, activation=102 * MIB, temporary=20 * MIB)
    device = report(maker.trace()).shown
    assert device is not None
    later, phases = device.fullest_step, device.prediction.phases.values()
    assert later is not None
    assert (later.step, later.allocated_bytes) == (1, 590 * MIB)
    assert later.reserved_bytes == max(peak.reserved_bytes for peak in phases)


def test_what_follows_the_last_step_is_no_step() -> None:
    maker = training(Maker(), steps=2)
    maker.phase = Phase.FORWARD
    maker.alloc("after", 700 * MIB, Category.TEMPORARIES)
    device = report(maker.trace()).shown
    assert device is not None
    assert device.fullest_step is not None
    assert (device.fullest_step.step, device.fullest_step.allocated_bytes) == (1, 590 * MIB)
    assert device.prediction.phases[Phase.FORWARD].allocated_bytes == (100 + 200 + 700) * MIB


def test_a_failed_request_of_a_trace_speaks_of_a_simulated_card() -> None:
    """Two activations of 100 MiB do not fit on weights of 100 MiB in 250: 50 MiB are left for the second."""
    found = report(out_of_memory(Maker(capacity=250 * MIB))).snapshot.devices[0]
    failure, ledger = found.failure, found.ledger
    assert failure is not None
    assert failure.simulated
    assert ("free on the card", "50.00 MiB", "simulated") in failure_rows(failure)
    assert not any("driver" in text for row in failure_rows(failure) for text in row)
    assert not any("driver" in one.why for one in failure.ruled_out)
    assert (ledger.capacity_bytes, ledger.origins["capacity_bytes"]) == (250 * MIB, "simulated")
    assert ledger.origins["free_bytes"] == ledger.origins["allocated_bytes"] == "simulated"
    shown = "\n".join(render_bar(ledger, ReportOptions(width=100)))
    assert "250.00 MiB  simulated; what PyTorch can have of the card" in shown
    assert "unknown" not in shown
    assert "not PyTorch's" not in shown
