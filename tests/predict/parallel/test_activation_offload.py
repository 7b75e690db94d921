"""Inputs of checkpointed layers on the host."""

from __future__ import annotations

import pytest

from oomph.job.model import Batch, Checkpointing, Framework, Hardware, Job, Parallel, Precision
from oomph.phases import Phase
from oomph.predict.plan import plan
from tests.predict.parallel.decoder import Sizes

SIZES = Sizes(layers=12, words=1000)
#: tokens x width in bf16: 2 x 1024 x 2048 x 2 bytes
HIDDEN = 8 << 20


def job(offload, framework="torchtune", **more):
    found = SIZES.job(Parallel())
    return Job(
        model=found.model,
        precision=more.pop("precision", Precision(weights="bf16", compute="bf16")),
        batch=Batch(micro=2, sequence=1024),
        hardware=Hardware(gpu="a100-80gb"),
        framework=Framework(name=framework),
        checkpointing=more.pop("checkpointing", Checkpointing(mode="full", reentrant=False)),
        activation_offload=offload,
    )


def peaks(offload):
    return plan(job(offload), replay=False).ranks[0].phases


def test_the_last_five_inputs_are_on_the_gpu():
    gone = peaks(False)[Phase.FORWARD].allocated_bytes - peaks(True)[Phase.FORWARD].allocated_bytes
    # 12 layers, of which the last five have their inputs there, and the first has the embedding's output, which
    # torchtune's code holds until it returns
    assert gone == (12 - 5 - 1) * HIDDEN


def test_what_comes_back_is_one_at_a_time_and_the_one_before():
    with_, without = plan(job(True), replay=False).ranks[0], plan(job(False), replay=False).ranks[0]
    assert with_.end_allocated_bytes == without.end_allocated_bytes
    # The peak is at the last layers of backward, when most gradients are there.
    more = with_.phases[Phase.BACKWARD].allocated_bytes - without.phases[Phase.BACKWARD].allocated_bytes
    assert more == HIDDEN


def test_the_host_has_them():
    # a power of two already, so page-locked memory is no larger
    host = plan(job(True), replay=False).host
    assert ("pinned inputs of layers", 12 * HIDDEN) in host.parts


@pytest.mark.parametrize(
    ("framework", "checkpointing", "said"),
    [
        ("trl", Checkpointing(), "without checkpointing every layer"),
        ("trl", Checkpointing(mode="full", reentrant=True), "reentrant"),
    ],
)
def test_what_is_not_modelled_is_named(framework, checkpointing, said):
    found = plan(job(True, framework, checkpointing=checkpointing), replay=False)
    assert said in found.unsupported[0]
