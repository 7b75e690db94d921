"""The largest that fits and machines compared, with predictions that are arithmetic; Pareto lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from oomph.errors import UsageError
from oomph.hardware.tables import all_machines
from oomph.job.families import architecture
from oomph.job.model import Batch, Job, Parallel
from oomph.predict.model import Plan
from oomph.remedy.largest import largest
from oomph.remedy.machines import compare_machines
from oomph.remedy.pareto import dominates, pareto
from oomph.remedy.room import upper
from tests.remedy.jobs import EIGHT, GIB, LAYER, ONE, WEIGHTS, needs, plan_of

#: transformers on one rank: the interval that the search has to stay below.
WIDER = upper(ONE, 10**9) / 10**9


def per_sample(job: Job) -> int:
    """2 GiB and 1 GiB per sample of 2,048 tokens, and 16 bytes per weight."""
    tokens = job.batch.micro * (job.batch.sequence or 0)
    return 2 * GIB + tokens * GIB // 2048 + 16 * architecture(job.model).total


def planner(job: Job, replay: bool) -> Plan:
    del replay
    return plan_of(job, 40 * GIB, needs(job))


@pytest.mark.parametrize("headroom", [0.0, 0.25])
def test_batch(headroom):
    found = largest(ONE, "batch", headroom, predictor=per_sample, planner=planner)
    room = 40 * GIB * (1 - headroom)
    by_hand = max(n for n in range(1, 60) if (2 * GIB + n * GIB + 16 * WEIGHTS) * WIDER <= room)
    assert found.value == by_hand
    assert found.job is not None
    assert found.job.batch.micro == by_hand
    assert found.next_bytes == 2 * GIB + (by_hand + 1) * GIB + 16 * WEIGHTS


def test_sequence_goes_in_steps_of_128_tokens():
    job = replace(ONE, batch=Batch(micro=1, sequence=2048))
    found = largest(job, "seq", 0.0, predictor=per_sample, planner=planner)
    most = max(
        n for n in range(1, 10_000) if (2 * GIB + n * 128 * GIB // 2048 + 16 * WEIGHTS) * WIDER <= 40 * GIB
    )
    assert found.value == most * 128


def test_parameters_are_layers_of_the_same_width():
    """32,768 bytes per weight: layers of 32,896 weights (two norms of 64 with them) beside the 128,064 others."""

    def need(job: Job) -> int:
        return 32_768 * architecture(job.model).total

    found = largest(ONE, "params", 0.0, predictor=need, planner=planner)
    rest = WEIGHTS - 4 * (LAYER + 128)
    layers = max(n for n in range(1, 100) if 32_768 * (rest + n * (LAYER + 128)) * WIDER <= 40 * GIB)
    assert found.layers == layers
    assert found.value == rest + layers * (LAYER + 128)


def test_none_fits():
    found = largest(ONE, "batch", 0.0, predictor=lambda _: 41 * GIB, planner=planner)
    assert found.value == 0
    assert found.job is None


def test_positions_end_the_search():
    """What the job's check refuses (longer than the model's positions) is not the answer."""

    def need(job: Job) -> int:
        if (job.batch.sequence or 0) > 4096:
            raise UsageError("too long")
        return GIB

    assert largest(ONE, "seq", 0.0, predictor=need, planner=planner).value == 4096


def test_what_is_not_modelled_is_refused():
    def need(_: Job) -> int:
        raise UsageError("unsupported: this")

    with pytest.raises(UsageError, match="unsupported"):
        largest(ONE, "batch", predictor=need, planner=planner)
    text_free = replace(ONE, batch=Batch(micro=1, sequence=None))
    with pytest.raises(UsageError, match="no text"):
        largest(text_free, "seq", predictor=per_sample, planner=planner)


def test_machines_are_compared():
    """60 GiB on every GPU: cards of 80 GB and more; those with fewer GPUs come first."""
    found = compare_machines(EIGHT, ("gcp",), 0.0, predictor=lambda _: 60 * GIB)
    assert {each.machine.provider for each in found} == {"Google Cloud"}
    fitting = [each for each in found if each.fits]
    assert all(each.capacity_bytes is not None and each.capacity_bytes >= 60 * GIB for each in fitting)
    assert {each.machine.gpu for each in fitting} >= {"a100-80gb", "h100"}
    assert "a100-40gb" not in {each.machine.gpu for each in fitting}
    counts = [each.machine.count for each in fitting]
    assert counts == sorted(counts)
    assert found[: len(fitting)] == tuple(fitting)
    for each in fitting:
        assert each.job is not None
        assert each.job.parallel.data == each.machine.count
        assert each.same_batch == (64 % (8 * each.machine.count) == 0)


def test_machines_whose_gpus_do_not_divide_are_refused():
    job = replace(EIGHT, parallel=Parallel(strategy="none", data=1, tensor=8))
    found = compare_machines(job, ("aws",), predictor=lambda _: GIB)
    for each in found:
        assert bool(each.refused) == (each.machine.count % 8 != 0)
    names = {each.name for each in all_machines() if each.provider == "AWS"}
    assert {each.machine.name for each in found} <= names


def test_unknown_clouds_are_refused():
    with pytest.raises(UsageError, match="gcp, aws, azure, lambda"):
        compare_machines(ONE, ("moon",), predictor=lambda _: 1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2)), max_size=30))
def test_a_pareto_list(points):
    """None of it is beaten, and all that is left out is beaten or the same as one of it."""
    kept = pareto(points, lambda each: each)
    assert not any(dominates(one, other) for one in kept for other in kept)
    for point in points:
        assert point in kept or any(dominates(one, point) for one in kept)
    assert len(set(kept)) == len(kept)
