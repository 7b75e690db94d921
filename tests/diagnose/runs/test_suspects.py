"""What each kind of change is known for."""

from __future__ import annotations

import pytest

from oomph.diagnose.runs.model import Change, RunFacts, Suspicion
from oomph.diagnose.runs.situation import situation
from oomph.diagnose.runs.suspects import all_kinds, kind_for
from oomph.diagnose.runs.suspects.allocator import settings
from oomph.diagnose.runs.suspects.precision import weight_bytes
from oomph.diagnose.runs.suspects.version_kind import numbers

PLACED = situation(
    RunFacts(path="b", id="b", values={"forward.kept": 8 << 30, "capacity": 40 << 30}),
    [
        RunFacts(
            path="a",
            id="a",
            values={
                "forward.kept": 4 << 30,
                "capacity": 80 << 30,
                "model.trainable": "1000000",
                "world_size": 1,
            },
        )
    ],
)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("arguments.per_device_train_batch_size", "batch"),
        ("arguments.training.local_batch_size", "batch"),
        ("arguments.per_device_eval_batch_size", "evaluation"),
        ("arguments.gradient_accumulation_steps", "accumulation"),
        ("arguments.max_length", "sequence"),
        ("arguments.packing", "padding"),
        ("data.fingerprint", "data"),
        ("data.train.loader.batch_size", "batch"),
        ("data.eval.fingerprint", "evaluation"),
        ("batch.elements", "longest batch"),
        ("versions.torch", "torch version"),
        ("versions.transformers", "transformers version"),
        ("versions.peft", "adapter library version"),
        ("versions.deepspeed", "framework version"),
        ("versions.nccl", "CUDA version"),
        ("versions.numpy", "library version"),
        ("versions.flash-attn", "attention"),
        ("environment.PYTORCH_CUDA_ALLOC_CONF", "allocator"),
        ("environment.PYTORCH_ALLOC_CONF", "allocator"),
        ("rank.3.environment.PYTORCH_ALLOC_CONF", "allocator"),
        ("environment.NCCL_BUFFSIZE", "environment"),
        ("environment.OMP_NUM_THREADS", "host"),
        ("environment.LOCAL_RANK", "noise"),
        ("environment.WORLD_SIZE", "world size"),
        ("environment.FSDP_OFFLOAD_PARAMS", "parallelism"),
        ("environment.CUDA_VISIBLE_DEVICES", "gpu"),
        ("arguments.optim", "optimizer"),
        ("arguments.gradient_checkpointing", "checkpointing"),
        ("arguments.attn_implementation", "attention"),
        ("arguments.bf16", "precision"),
        ("model.dtypes", "precision"),
        ("model.id", "model"),
        ("model.adapter.default.r", "model"),
        ("arguments.fsdp", "parallelism"),
        ("arguments.deepspeed.zero_optimization.stage", "parallelism"),
        ("arguments.torch_compile", "compile"),
        ("arguments.use_liger_kernel", "loss"),
        ("arguments.fsdp_state_dict_type", "saving"),
        ("arguments.learning_rate", "noise"),
        ("arguments.output_dir", "noise"),
        ("seed", "seed"),
        ("command", "command"),
        ("gpu.name", "gpu"),
        ("capacity", "gpu"),
        ("other_processes", "neighbours"),
        ("git.commit", "code"),
        ("machine.host", "noise"),
        ("arguments.something_new", "other"),
        ("world_size", "world size"),
    ],
)
def test_every_fact_has_its_kind(key, kind):
    assert kind_for(key).name == kind


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    ("before", "after"),
    [("1", "2"), (None, "x"), ("True", None), ("eager", "sdpa"), (4, 2), ("", "[]"), ("nan", "inf")],
)
def test_every_kind_answers_for_any_value(kind, before, after):
    for key in ("arguments.fused", "environment.NCCL_X", "versions.torch", "batch.elements", "git.dirty"):
        judged = kind.judge(Change(key, before, after), PLACED)
        assert judged.effect
        assert judged.direction in (-1, 0, 1)
        assert not judged.effect.endswith(".")


def judge(key: str, before: object, after: object):
    return kind_for(key).judge(Change(key, before, after), PLACED)  # type: ignore[arg-type]


def test_a_batch_is_in_proportion():
    # 4 GiB were kept; 6 rows instead of 4 keep half as much again.
    assert judge("arguments.batch_size", "4", "6").expected_bytes == 2 << 30
    assert judge("arguments.batch_size", "4", "2").expected_bytes == -(2 << 30)


def test_state_of_optimizers():
    # AdamW keeps two fp32 moments: 8 bytes for each of a million parameters; SGD none.
    assert judge("arguments.optim", "sgd", "adamw_torch").expected_bytes == 8_000_000
    assert judge("arguments.optim", "adamw_torch", "adamw_8bit").expected_bytes == -6_000_000


def test_bytes_of_types():
    assert weight_bytes("bfloat16 1000, float32 10") == 2040
    assert weight_bytes("nf4 7") is None
    assert judge("model.dtypes", "bfloat16 1000", "float32 1000").expected_bytes == 2000


def test_less_capacity_is_suspicious():
    judged = judge("capacity", 80 << 30, 40 << 30)
    assert judged.prior is Suspicion.LIKELY
    assert judged.direction == 1


@pytest.mark.parametrize(
    ("library", "before", "after", "direction", "says"),
    [
        ("peft", "0.11.1", "0.12.0", 1, "fp32"),
        ("peft", "0.13.0", "0.14.0", 0, "may differ"),
        ("peft", "0.12.0", "0.11.1", -1, "goes back"),
        ("bitsandbytes", "0.42.0", "0.43.1", -1, "4-bit"),
        ("transformers", "4.48.1", "4.57.0", -1, "one fp32 copy of the logits less"),
        ("transformers", "4.57.1", "5.0.0", -1, "type that the checkpoint has"),
        ("torch", "1.13.1", "2.0.1", 0, "set"),
        ("torch", "2.6.0+cu124", "2.6.0+cu126", 0, "another build"),
    ],
)
def test_versions(library, before, after, direction, says):
    judged = judge(f"versions.{library}", before, after)
    assert judged.direction == direction
    assert says in judged.effect


def test_what_is_known_of_versions_names_its_source():
    known = [each for kind in all_kinds() for each in getattr(kind, "known", ())]
    assert len(known) > 8
    assert all(each.source and numbers(each.since) for each in known)


def test_settings_of_the_allocator():
    assert settings("expandable_segments:True,max_split_size_mb:64") == {
        "expandable_segments": "True",
        "max_split_size_mb": "64",
    }
    assert judge("environment.PYTORCH_ALLOC_CONF", "expandable_segments:True", None).direction == 1
    assert (
        "Allocated bytes stay" in judge("environment.PYTORCH_ALLOC_CONF", None, "max_split_size_mb:64").effect
    )
