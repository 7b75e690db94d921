"""The job that a run's fingerprint and records describe: what `--against` compares with, and plans where nobody names a
job."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from oomph.diagnose.verify.against.batch import Longest, longest
from oomph.errors import OomphError, UsageError
from oomph.evidence.run.data import RunData
from oomph.job.importers import Imported, merge, read
from oomph.job.model import Framework, Job, Model

_LONGEST_VALUE = 20_000
#: Libraries whose versions decide about bytes (the frameworks and what predict/frameworks asks for).
LIBRARIES = ("torch", "transformers", "peft", "trl", "accelerate", "bitsandbytes", "deepspeed", "diffusers")
_MIXED = ("bf16", "fp16", "mixed_precision")
_DTYPES = {"float32": "float32", "bfloat16": "bfloat16", "float16": "float16"}


@dataclass(frozen=True)
class RecordedJob:
    """`said` are the paths of fields that the run's own records decide; the rest of `job` is as by default. `notes`: a
    sentence each."""

    job: Job
    said: frozenset[str]
    notes: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()


def recorded_job(data: RunData) -> RecordedJob:
    """What the run says of its job. Raises UsageError where it does not say which model it trains."""
    values = values_of(data)
    imported = [_arguments(values)]
    adapter = _adapter(values)
    if adapter is not None:
        imported.append(adapter)
    world = world_of(data)
    job, notes = merge(*imported, gpus=world)
    said = {path for each in imported for path, value in each.values.items() if not value.default}
    said |= _composed(values, adapter is not None)
    model = _model(values, job.model)
    job = replace(job, model=model, framework=_framework(values, job.framework))
    gpu = values.get("gpu.known_as", "")
    if gpu:
        job = replace(job, hardware=replace(job.hardware, gpu=gpu))
        said.add("hardware.gpu")
    found = longest(data)
    if found is not None:
        job = with_batch(job, found)
        said |= {"batch.micro", "batch.sequence"}
    if world is not None:
        said.add("parallel.data")
    unknown = sum(len(each.unknown) for each in imported)
    more = [f"{unknown:,} recorded arguments are not understood, and may matter."] if unknown else []
    unsupported = tuple(sentence for each in imported for sentence in each.unsupported)
    return RecordedJob(job, frozenset(said), (*_brief(notes), *more), unsupported)


def _composed(values: Mapping[str, str], adapters: bool) -> set[str]:
    """Parts that several facts decide together, where all of these were recorded. Without a word on mixed precision a
    script may still autocast in its own code."""
    said = set()
    if any(f"arguments.{name}" in values for name in _MIXED):
        said.add("precision")
    if adapters or (
        values.get("model.trainable") and values.get("model.trainable") == values.get("model.parameters")
    ):
        said.add("method")
    return said


def values_of(data: RunData) -> Mapping[str, str]:
    """The fingerprint of rank 0, or of the first rank that has one."""
    for rank in sorted(data.fingerprints):
        if data.fingerprints[rank].values:
            return data.fingerprints[rank].values
    return {}


def world_of(data: RunData) -> int | None:
    """The number of ranks; None where nothing says it."""
    size = data.world_size or data.run.world_size
    return size if size is not None and size > 0 else None


def with_batch(job: Job, found: Longest) -> Job:
    """The job with that batch."""
    batch = replace(job.batch, micro=found.micro)
    if found.sequence is not None:
        batch = replace(batch, sequence=found.sequence)
    if found.image_size is not None:
        batch = replace(batch, image_size=found.image_size, sequence=None)
    return replace(job, batch=batch)


def versions_of(values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The versions that decide about bytes."""
    known = [(name, values.get(f"versions.{name}")) for name in LIBRARIES]
    return tuple(sorted((name, version.partition("+")[0]) for name, version in known if version))


def _framework(values: Mapping[str, str], read_from: Framework) -> Framework:
    """transformers only where its arguments were recorded: a script of one's own may use its models."""
    trainer = "arguments.per_device_train_batch_size" in values
    return Framework(
        name="transformers" if trainer else "", versions=versions_of(values) or read_from.versions
    )


def _arguments(values: Mapping[str, str]) -> Imported:
    """The arguments as transformers' own, whose names most scripts use, with what the model itself said."""
    prefix = "arguments."
    table: dict[str, object] = {}
    for name, text in values.items():
        if name.startswith(prefix):
            _put(table, name.removeprefix(prefix).split("."), _value(text))
    for name, key in (
        ("model.gradient_checkpointing", "gradient_checkpointing"),
        ("model.attn_implementation", "attn_implementation"),
    ):
        if values.get(name):
            table[key] = _value(values[name])
    dtype = _stored(values.get("model.dtypes", ""))
    if dtype:
        table.setdefault("torch_dtype", dtype)
    table.setdefault("output_dir", "")
    if values.get("versions.transformers"):
        table["transformers_version"] = values["versions.transformers"]
    return read(msgspec.json.encode(table).decode(), kind="TrainingArguments")


def _adapter(values: Mapping[str, str]) -> Imported | None:
    """LoRA as PEFT's own configuration says it."""
    names = sorted({name.split(".")[2] for name in values if name.startswith("model.adapter.")})
    if not names:
        return None
    prefix = f"model.adapter.{names[0]}."
    table = {
        name.removeprefix(prefix): _value(text) for name, text in values.items() if name.startswith(prefix)
    }
    kind = str(table.get("peft_type", "")).rsplit(".", 1)[-1]
    return read(msgspec.json.encode({**table, "peft_type": kind}).decode(), kind="PEFT")


def _model(values: Mapping[str, str], read_from: Model) -> Model:
    """The model by its name, else by the numbers of its configuration that were recorded."""
    name = values.get("model.id", "") or read_from.name
    if name:
        from oomph.job.names import model as named

        try:
            return named(name)
        except OomphError:
            pass  # a folder of another machine; its numbers may be known
    if read_from.config:
        return read_from
    fields = {
        key.removeprefix("model."): _value(text)
        for key, text in values.items()
        if key.startswith("model.") and key.count(".") == 1
    }
    if not fields.get("model_type"):
        raise UsageError(
            "The run does not say which model it trains (its fingerprint has no model.id that is known here): name the "
            "job, as in: oomph plan job.toml --against RUN"
        )
    from oomph.job.config import from_config

    left_out = ("id", "revision", "class", "parameters", "trainable", "dtypes", "weights")
    return from_config({key: value for key, value in fields.items() if key not in left_out}, name)


def _put(table: dict[str, object], path: list[str], value: object) -> None:
    for part in path[:-1]:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            return
        table = inner
    if not isinstance(table.get(path[-1]), dict):
        table[path[-1]] = value


def _value(text: str) -> object:
    """What str() made text of: numbers, True, None, lists; anything else stays text."""
    text = text.encode("utf-8", "replace").decode()  # no lone surrogates: it becomes JSON
    if len(text) > _LONGEST_VALUE:
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    if isinstance(value, (set, frozenset, tuple)):
        value = sorted(value, key=str) if isinstance(value, (set, frozenset)) else list(value)
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return text
    return value


def _stored(text: str) -> str:
    """The type that most parameters have, of "bfloat16 8030261248, float32 4096"."""
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, _, count = part.strip().partition(" ")
        if name in _DTYPES and count.isascii() and count.isdigit():
            sizes[name] = int(count)
    return max(sizes, key=lambda name: sizes[name]) if sizes else ""


def _brief(notes: tuple[str, ...]) -> list[str]:
    """The notes without those about defaults: all of a recorded run's arguments were at work."""
    return [note for note in notes if "default" not in note]
