"""What changes free, predicted, against what follows from counting by hand: two layers of Llama 3.1 8B."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oomph.job.change import with_values
from oomph.job.model import Batch, Framework, Hardware, Job, Parallel, Precision
from oomph.job.names import model
from oomph.phases import Phase
from oomph.remedy.changes import by_code
from oomph.remedy.changes.eight_bit_optimizer import EightBit
from oomph.remedy.changes.fused_optimizer import Fused
from oomph.remedy.changes.lora import LoraAdapters
from oomph.remedy.changes.micro_batch import MicroBatch
from oomph.remedy.changes.paged_optimizer import Paged
from oomph.remedy.changes.shard import Shard
from oomph.remedy.saving import saving, saving_of

#: Per layer q, o 4096 x 4096, k, v 1024 x 4096, three of 14336 x 4096, two norms; embedding and head; the last norm.
LAYER = 2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 14336 * 4096 + 2 * 4096
WEIGHTS = 2 * LAYER + 2 * 128256 * 4096 + 4096
PARAMETERS = 2 * 9 + 3

ONE: Job = with_values(
    Job(
        model=model("meta-llama/Llama-3.1-8B"),
        precision=Precision(weights="bf16", compute="bf16"),
        batch=Batch(micro=4, sequence=512),
        framework=Framework(name="transformers"),
        hardware=Hardware(gpu="a100-80gb"),
    ),
    {"model.config.num_hidden_layers": 2},
)
EIGHT = replace(ONE, parallel=Parallel(strategy="ddp", data=8), hardware=Hardware(gpu="a100-80gb", gpus=8))


def test_fused_frees_one_set_of_second_moments():
    """2 bytes per weight, less a step of 512 bytes per parameter that fused keeps on the device."""
    found = saving_of(ONE, Fused())
    assert found is not None
    assert found.bytes_by_phase[Phase.OPTIMIZER] == pytest.approx(2 * WEIGHTS - 512 * PARAMETERS, abs=4096)
    assert found.bytes_by_phase[Phase.LOAD] == 0


def test_eight_bit_states():
    """The step needs two moments of 2 bytes and a set of 2 for a while; with bitsandbytes those of 1 and 4/256 byte,
    except the embedding's, which transformers asks to be of 4."""
    embedding = 128256 * 4096
    before = (4 + 2) * WEIGHTS
    after = 2 * (1 + 4 / 256) * (WEIGHTS - embedding) + 2 * 4 * embedding
    found = saving_of(ONE, EightBit())
    assert found is not None
    assert found.bytes_by_phase[Phase.OPTIMIZER] == pytest.approx(before - after, rel=0.001)


def test_paged_states_are_not_in_the_allocator():
    found = saving_of(ONE, Paged())
    assert found is not None
    assert found.bytes_by_phase[Phase.OPTIMIZER] == pytest.approx(6 * WEIGHTS, rel=0.001)


def test_adapters_have_no_gradients_and_states_of_the_weights():
    """In the step: gradients 2, moments 4 and roots 2 bytes per weight go; adapters of rank 16 on the seven linear
    modules of two layers come, in fp32: 4 of themselves, 4 of gradients, 8 of moments, 4 of roots."""
    sides = (4096 + 4096) * 2 + (4096 + 1024) * 2 + (4096 + 14336) * 3
    adapters = 2 * 16 * sides
    found = saving_of(ONE, LoraAdapters(16))
    assert found is not None
    assert found.bytes_by_phase[Phase.OPTIMIZER] == pytest.approx(8 * WEIGHTS - 20 * adapters, rel=0.001)


def test_micro_batches_trade_activations_for_gradients_that_wait():
    """Of 4 samples, one at a time: the activations of 3 go, two at a time those of 2; in both the gradients of the
    micro-batch before wait during forward (2 bytes per weight), which the whole batch did not have."""
    one, two = saving_of(ONE, MicroBatch(1)), saving_of(ONE, MicroBatch(2))
    assert one is not None
    assert two is not None
    assert one.bytes_by_phase[Phase.LOAD] == 0
    assert one.bytes_by_phase[Phase.OPTIMIZER] == pytest.approx(0, abs=1 << 20)
    sample = one.bytes_by_phase[Phase.FORWARD] - two.bytes_by_phase[Phase.FORWARD]
    assert sample > 0
    assert two.bytes_by_phase[Phase.FORWARD] == pytest.approx(2 * sample - 2 * WEIGHTS, abs=0.01 * WEIGHTS)


def test_a_full_shard_has_an_eighth_of_the_weights():
    found = saving_of(EIGHT, Shard("fsdp2_full"))
    assert found is not None
    step = found.bytes_by_phase[Phase.OPTIMIZER]
    # Weights 2, gradients 2 (and DDP's buckets, 2 more), moments 4, roots 2: seven eighths of 10, and the buckets.
    assert step == pytest.approx((10 * 7 / 8 + 2) * WEIGHTS, rel=0.01)


def test_by_the_code_of_an_action():
    found = saving(ONE, "checkpointing")
    assert found is not None
    assert found.change.title == "activation checkpointing"
    assert found.bytes_by_phase[Phase.FORWARD] > 0
    assert saving(ONE, "shard-more") is None
    assert saving(ONE, "stop-process") is None
    assert by_code(ONE, "stop-process") is None


def test_what_is_not_modelled_has_no_saving():
    other = replace(ONE, model=replace(ONE.model, family="moon"))
    assert saving(other, "checkpointing") is None
