"""What a run's fingerprint and batches say of the job, in the names of facts that logs have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from oomph.evidence.run.data import RankData, RunData
from oomph.evidence.run.model import Fingerprint

#: Name in a fingerprint -> fact. Of several for one fact the first that is there counts.
_NAMES = (
    ("versions.torch", "torch_version"),
    ("versions.cuda", "cuda_version"),
    ("versions.driver", "driver_version"),
    ("gpu.name", "gpu_name"),
    ("model.id", "model"),
    ("arguments.per_device_train_batch_size", "batch_size"),
    ("arguments.per_device_eval_batch_size", "eval_batch_size"),
    ("arguments.gradient_accumulation_steps", "accumulation"),
    ("arguments.optim", "optimizer"),
    ("environment.PYTORCH_CUDA_ALLOC_CONF", "alloc_conf"),
    ("environment.PYTORCH_ALLOC_CONF", "alloc_conf"),
    ("environment.PYTORCH_HIP_ALLOC_CONF", "alloc_conf"),
)
_TRUE = {"true": "true", "True": "true", "1": "true", "false": "false", "False": "false", "0": "false"}
_TOKENS = ("input_ids", "tokens", "labels")
_LONGEST_VALUE = 300


def facts_of(run: RunData, rank: RankData) -> Iterator[tuple[str, str]]:
    """(name, value) of each fact: world size, versions, arguments, and what the shapes of the batch show."""
    if run.world_size is not None:
        yield "world_size", str(run.world_size)
    print_of = run.fingerprints.get(rank.rank) or next(iter(run.fingerprints.values()), None)
    said = set()
    for name, value in _named(print_of):
        said.add(name)
        yield name, value
    for name, value in _of_batch(_batch(rank)):
        if name not in said:
            yield name, value
    header = rank.header
    if header is not None and "gpu_name" not in said and header.device.strip().lower() not in ("", "cpu"):
        yield "gpu_name", header.device


def _named(found: Fingerprint | None) -> Iterator[tuple[str, str]]:
    if found is None:
        return
    said = set()
    for key, name in _NAMES:
        value = found.values.get(key, "").strip()
        if name == "gpu_name" and value.lower() == "cpu":
            continue
        if value and value not in ("None", "null") and len(value) <= _LONGEST_VALUE and name not in said:
            said.add(name)
            yield name, value
    for key in ("model.gradient_checkpointing", "arguments.gradient_checkpointing"):
        checkpointing = _TRUE.get(found.values.get(key, ""))
        if checkpointing is not None:
            yield "checkpointing", checkpointing
            break
    for key in ("bf16", "fp16"):
        if _TRUE.get(found.values.get(f"arguments.{key}", "")) == "true":
            yield "mixed_precision", key
            return


def _batch(rank: RankData) -> Mapping[str, tuple[int, ...]]:
    """The shapes at the failure, else those of the last step that has any."""
    if rank.oom is not None and rank.oom.batch:
        return rank.oom.batch
    shown = [one.batch for one in rank.phases[-64:] if one.batch]
    shown = shown or [one.batch for one in rank.steps[-8:] if one.batch]
    return shown[-1] if shown else {}


def _of_batch(batch: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, str]]:
    """Rows and length of a batch of tokens; of anything else the shapes say no such thing."""
    for name in _TOKENS:
        shape = batch.get(name, ())
        if len(shape) == 2 and all(size > 0 for size in shape):
            yield "batch_size", str(shape[0])
            yield "sequence_length", str(shape[1])
            return


def shapes(batch: Mapping[str, tuple[int, ...]]) -> str:
    """Shapes as text: "input_ids 8 x 2048"."""
    return ", ".join(f"{name} {' x '.join(str(size) for size in shape)}" for name, shape in batch.items())
