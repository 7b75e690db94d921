"""A trace's own phases, steps, categories and labels, where a snapshot would have to guess."""

from __future__ import annotations

import pickle

import pytest

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.analysis import Analysis
from oomph.diagnose.snapshot.build import report_of
from oomph.diagnose.snapshot.exact import shared_label
from oomph.diagnose.snapshot.model import How, SnapshotReport, Verdict
from oomph.evidence.snapshot import Snapshot, from_bytes
from oomph.memory.categories import CATEGORIES, Category
from oomph.phases import Phase
from oomph.tracing.model import Trace
from oomph.tracing.write import content
from oomph.units import MIB
from tests.tracing.made import Maker, out_of_memory, training


def snapshot_of(trace: Trace) -> Snapshot:
    return from_bytes(pickle.dumps(content(trace), protocol=4), "trace.pickle")


def report(trace: Trace, **more: str) -> SnapshotReport:
    return report_of(snapshot_of(trace), **more)  # type: ignore[arg-type]


def test_the_peak_is_told_in_exact_categories() -> None:
    # Step 1, in backward: weights, states, two activations, a temporary and the first gradient (of "head").
    device = report(training(Maker()).trace()).devices[0]
    assert device.peak_allocated_bytes == (100 + 200 + 200 + 30 + 60) * MIB
    assert {share.category: share.bytes for share in device.shares} == {
        Category.PARAMETERS: 100 * MIB,
        Category.OPTIMIZER_STATE: 200 * MIB,
        Category.ACTIVATIONS: 200 * MIB,
        Category.TEMPORARIES: 30 * MIB,
        Category.GRADIENTS: 60 * MIB,
    }
    assert {(share.how, share.certainty) for share in device.shares} == {(How.TRACED, Certainty.CERTAIN)}
    assert (device.moment.phase, device.moment.phase_how) == (Phase.BACKWARD, How.TRACED)


def test_holders_have_labels() -> None:
    device = report(training(Maker()).trace()).devices[0]
    labels = {(holder.category, holder.label) for holder in device.holders}
    assert (Category.ACTIVATIONS, "layers.0.mlp") in labels
    assert (Category.TEMPORARIES, "aten.mm") in labels
    # Two parameters of one line have nothing in common but their line.
    assert (Category.PARAMETERS, "") in labels


def test_without_stacks_what_made_a_block_tells_it_from_others() -> None:
    device = report(training(Maker(stacks=False)).trace()).devices[0]
    told = {(holder.category, holder.label): holder.bytes // MIB for holder in device.holders}
    assert told[Category.ACTIVATIONS, "layers.0.mlp"] == told[Category.ACTIVATIONS, "layers.1.mlp"] == 100
    assert told[Category.TEMPORARIES, "aten.mm"] == 30
    # Parameters and states are one row each, whatever their names.
    assert told[Category.PARAMETERS, ""] == 100
    assert told[Category.OPTIMIZER_STATE, ""] == 200


def test_steps_are_those_that_the_trace_counted() -> None:
    steps = report(training(Maker()).trace()).devices[0].steps
    assert steps is not None
    assert (steps.count, steps.how, steps.certainty) == (3, How.TRACED, Certainty.CERTAIN)
    # The first step begins after two weights and their segments.
    analysis = Analysis(snapshot_of(training(Maker()).trace()), 0)
    assert analysis.step_of(analysis.lifetimes.born[:2]).tolist() == [-1, -1]
    assert len(steps.first_positions) == 3


def test_a_run_without_an_optimizer_has_no_steps() -> None:
    maker = Maker()
    maker.phase = Phase.FORWARD
    maker.alloc("a", MIB, Category.ACTIVATIONS, "layer")
    steps = report(maker.trace()).devices[0].steps
    assert steps is not None
    assert steps.count == 0


def test_a_full_card_fails_as_in_a_snapshot() -> None:
    answer = report(out_of_memory(Maker(capacity=250 * MIB)))
    failure = answer.devices[0].failure
    assert failure is not None
    # 200 MiB in use, 50 MiB free, 100 MiB asked for.
    assert failure.verdict is Verdict.FULL
    assert (failure.request_bytes, failure.free_bytes, failure.short_by_bytes) == (
        100 * MIB,
        50 * MIB,
        50 * MIB,
    )
    assert answer.devices[0].moment.phase is Phase.FORWARD
    assert answer.exit_code == 1


def test_what_if_knows_the_capacity_of_the_trace() -> None:
    trace = training(Maker(capacity=2048 * MIB)).trace()
    answer = report_of(snapshot_of(trace), what_if=["capacity:300MiB", "expandable_segments:True"])
    tried = answer.devices[0].what_if
    assert tried is not None
    assert tried.capacity_bytes == 2048 * MIB
    fails = {trial.setting: trial.fails_at is not None for trial in tried.trials}
    assert fails["capacity:300MiB"]
    assert not fails["expandable_segments:True"]


def test_what_the_trace_does_not_know_is_told_as_in_a_snapshot() -> None:
    maker = training(Maker())
    maker.columns[2][:2] = [CATEGORIES.index(Category.UNKNOWN)] * 2
    shares = {share.category: share for share in report(maker.trace()).devices[0].shares}
    # The two weights, by the stacks of what uses them; all else as the trace says.
    assert (shares[Category.PARAMETERS].bytes, shares[Category.PARAMETERS].how) == (100 * MIB, How.FRAMES)
    assert shares[Category.ACTIVATIONS].how is How.TRACED


@pytest.mark.parametrize(
    ("labels", "shared"),
    [
        ([], ""),
        ([""], ""),
        (["a.0"], "a.0"),
        (["", "a.0"], "a.0"),
        (["layers.0.mlp", "layers.11.mlp"], "layers.*.mlp"),
        (["model.layers.0.mlp", "model.layers.0.attn"], "model.layers.*"),
        (["model.norm", "model.head"], "model.*"),
        (["norm", "head"], ""),
        (["conv1", "conv2"], ""),
        (["0.weight", "2.bias"], ""),
        (["0", "2"], ""),
    ],
)
def test_labels_of_several_blocks_are_one_text(labels: list[str], shared: str) -> None:
    assert shared_label(labels) == shared
