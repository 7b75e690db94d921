"""One published measurement as a job: a row of a points file (JSON lines) and the configuration beside it.

The rows' fields and words are those of the points' schema. What a row has that a job cannot say is a UsageError that
names it, so that a row is either predicted as it was or counted as unsupported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeVar, get_args

import msgspec

from oomph.errors import InputError, UsageError
from oomph.hardware.names import gpu as gpu_of
from oomph.job.config import from_config
from oomph.job.importers import libraries
from oomph.job.model import (
    AttentionName,
    Batch,
    Checkpointing,
    CheckpointMode,
    DType,
    Framework,
    Hardware,
    Job,
    Lora,
    LossName,
    Method,
    Model,
    Optimizer,
    OptimizerImpl,
    Parallel,
    Precision,
    Quantization,
    Strategy,
)

T = TypeVar("T")

#: Fields of a row that describe the measurement, not the job.
_ABOUT = frozenset({"id", "source", "trust", "metric", "value_bytes", "uncertainty", "inferred", "outcome"})
_FIELDS = _ABOUT | {
    "model", "gpu", "num_gpus", "parallel", "method", "lora", "quantization", "precision", "optimizer",
    "checkpointing", "activation_offload", "attention", "loss", "compile", "micro_batch", "seq_len", "image_size",
    "grad_accum", "framework",
}  # fmt: skip
_DTYPES: tuple[DType, ...] = get_args(DType)
_STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
_ATTENTIONS: tuple[AttentionName, ...] = get_args(AttentionName)
_LOSSES: tuple[LossName, ...] = tuple(name for name in get_args(LossName) if name != "default")
_METHODS: tuple[Literal["full", "lora", "qlora", "dora"], ...] = ("full", "lora", "qlora", "dora")
_MODES: tuple[CheckpointMode, ...] = ("none", "full", "selective_op")
_QUANTIZATIONS: dict[object, Quantization | None] = {
    None: None,
    "nf4": Quantization(kind="nf4"),
    "nf4_double": Quantization(kind="nf4", double=True),
    "fp4": Quantization(kind="fp4"),
    "fp4_double": Quantization(kind="fp4", double=True),
    "int8": Quantization(kind="int8"),
    "gptq4": Quantization(kind="gptq4", block=128),
}
_IMPLS: dict[str, OptimizerImpl] = {
    "foreach": "foreach",
    "fused": "fused",
    "for_loop": "for_loop",
    "capturable": "capturable",
    "in_backward": "in_backward",
    "bnb": "bnb",
    "bnb_8bit": "bnb",
    "bnb_32bit": "bnb",
    "bnb_paged": "bnb_paged",
    "bnb_paged_32bit": "bnb_paged",
    "bnb_paged_8bit": "bnb_paged",
    "torchao": "torchao",
    "torchao_8bit": "torchao",
    "torchao_4bit": "torchao",
    "torchao_fp8": "torchao",
}
#: Dropout of adapters where the rows do not say it and the script does: the benchmark's scenarios files
#: (scripts/benchmarks/scenarios*.yaml, lora_dropout: 0.1) and LitGPT's config_hub (lora_dropout: 0.05, its default).
_DROPOUT = {"foundation-model-stack/fms-acceleration": 0.1, "lightning-ai/litgpt": 0.05}
#: Checkpoints whose main branch has one GPTQ group a column (quantize_config.json, group_size -1: "no group size, to
#: lower VRAM requirements"). A column is as long as the hidden state or longer.
_WHOLE_COLUMNS = ("thebloke/llama-2-70b", "thebloke/mixtral-8x7b")
#: Code that shards the residual stream along the sequence between tensor-parallel ranks (its only plan for llama).
_SEQUENCE_PARALLEL = frozenset({"torchtitan"})
#: Who measured torchtitan through its own launch script, which sets PYTORCH_CUDA_ALLOC_CONF (run_train.sh; torchao's
#: benchmarks/float8/training/llama3.sh calls it). torchtitan's own tables are of many nodes, which it does not start.
_LAUNCHED = "pytorch/ao"
_EXPANDABLE = "expandable_segments:True"
_EVERY_N = re.compile(r"every_(\d{1,4})")
#: Issues and pull requests of lightning-thunder are numbered as they come: the first of September 2024 (f94540958).
_THUNDER = re.compile(r"lightning-thunder(?:#|/issues/|/pull/)(\d{1,6})", re.IGNORECASE)
_THUNDER_SEPTEMBER = 1078
_INTERLEAVED = re.compile(r"interleaved", re.IGNORECASE)
_PREPARED = re.compile(r"prepare_model_for_kbit|baseline-peft-bnb", re.IGNORECASE)
_OWN_UNITS = re.compile(r"embeddings? and (?:lm_)?head are their own FSDP units", re.IGNORECASE)


def from_point(row: Mapping[str, object], configs: Path) -> Job:
    """The job of a row; `configs` is the folder that model.config names a file in. UsageError names the field that is
    missing, malformed or beyond what a job can say; InputError where the configuration cannot be read."""
    source = str(row.get("source") or "")
    text = str(row.get("framework") or "")
    _known(row, "", _FIELDS)
    framework = _framework(text, source)
    parallel = _parallel(row, framework)
    chunks = _chunks(row, parallel, framework)
    model = _model(row, configs)
    method = _method(row, framework, source, model)
    return Job(
        model=model,
        method=method,
        precision=_precision(row, method),
        batch=Batch(
            micro=_whole(row, "micro_batch") // chunks,
            sequence=_whole_or_none(row, "seq_len"),
            accumulation=_whole(row, "grad_accum") * chunks,
            image_size=_whole_or_none(row, "image_size"),
            packed="fms-acceleration" in source,
            variable="seq_len is the cap" in _note(row),
        ),
        optimizer=_optimizer(row),
        checkpointing=_checkpointing(row),
        activation_offload=_flag(row, "activation_offload"),
        parallel=parallel,
        attention=_choice(row, "attention", _ATTENTIONS),
        loss=_loss(row, framework, parallel),
        compile=_flag(row, "compile"),
        framework=framework,
        hardware=_hardware(row, parallel),
        allocator=_EXPANDABLE
        if framework.name == "torchtitan" and _LAUNCHED in source and _cuda(row)
        else "",
    )


def _get(row: Mapping[str, object], path: str) -> object:
    value: object = row
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise UsageError(f"the row has no {path}")
        value = value[part]
    return value


def _known(row: Mapping[str, object], path: str, names: frozenset[str] | set[str]) -> None:
    """Refuses fields that nobody here reads: what they say could change the memory."""
    for name, value in row.items():
        if name not in names and value is not None:
            raise UsageError(f"unsupported: the row's field {path}{name}, which a job does not have")


def _table(row: Mapping[str, object], path: str, names: set[str]) -> Mapping[str, object]:
    value = _get(row, path)
    if not isinstance(value, Mapping):
        raise UsageError(f"the row's {path} is {value!r:.100}, not a table")
    _known(value, f"{path}.", names)
    return value


def _whole(row: Mapping[str, object], path: str) -> int:
    value = _get(row, path)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"the row's {path} is {value!r:.100}, not a whole number from 1")
    return value


def _whole_or_none(row: Mapping[str, object], path: str) -> int | None:
    return None if _get(row, path) is None else _whole(row, path)


def _flag(row: Mapping[str, object], path: str) -> bool:
    value = _get(row, path)
    if not isinstance(value, bool):
        raise UsageError(f"the row's {path} is {value!r:.100}, not true or false")
    return value


def _choice(row: Mapping[str, object], path: str, allowed: tuple[T, ...]) -> T:
    value = _get(row, path)
    for known in allowed:
        if isinstance(value, str) and value == known:
            return known
    raise UsageError(f"unsupported: {path} {value!r:.100} (a job can say {', '.join(map(str, allowed))})")


def _lookup(row: Mapping[str, object], path: str, table: Mapping[object, T] | Mapping[str, T]) -> T:
    value = _get(row, path)
    for key, mapped in table.items():
        if type(value) is type(key) and value == key:
            return mapped
    raise UsageError(f"unsupported: {path} {value!r:.100} (known: {', '.join(str(k) for k in table)})")


def _model(row: Mapping[str, object], configs: Path) -> Model:
    table = _table(row, "model", {"name", "config"})
    file = table.get("config")
    if not isinstance(file, str) or not re.fullmatch(r"[\w.-]{1,200}", file):
        raise UsageError(f"the row's model.config is {file!r:.100}, not the name of a file")
    try:
        config = msgspec.json.decode((configs / file).read_bytes(), type=dict[str, object])
    except OSError as error:
        raise InputError(f"{configs / file}: {error.strerror or 'cannot be read'}") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InputError(f"{configs / file} is not a JSON table: {error}") from None
    model = from_config(config, str(table.get("name") or ""))
    if not model.family:
        raise UsageError(f"{file} has no model_type")
    return model


def _note(row: Mapping[str, object]) -> str:
    """What the row leaves open, in its own words."""
    return str(row.get("uncertainty") or "")


def _framework(text: str, source: str) -> Framework:
    name = libraries.trainer(text, source)
    found = libraries.versions(text)
    date = libraries.source_date(source)
    number = _THUNDER.search(source[:10_000])
    if not date and number is not None and int(number.group(1)) < _THUNDER_SEPTEMBER:
        date = "2024.08"
    if name and date and found.get(name, "git").startswith("git"):
        found.setdefault(f"{name}-date", date)
    return Framework(name=name, versions=tuple(sorted(found.items())))


def _parallel(row: Mapping[str, object], framework: Framework) -> Parallel:
    _table(row, "parallel", {"strategy", "data", "tensor", "context", "pipeline", "cpu_offload"})
    strategy = _choice(row, "parallel.strategy", _STRATEGIES)
    offload = _choice(row, "parallel.cpu_offload", ("none", "params", "optimizer", "all"))
    if offload == "params" and not strategy.startswith("fsdp"):
        raise UsageError(
            "unsupported: parallel.cpu_offload 'params' without the optimizer's states, except in FSDP"
        )
    tensor = _whole(row, "parallel.tensor")
    apart = _OWN_UNITS.search(str(row.get("uncertainty") or "")[:10_000])
    return Parallel(
        strategy=strategy,
        data=_whole(row, "parallel.data"),
        tensor=tensor,
        context=_whole(row, "parallel.context"),
        pipeline=_whole(row, "parallel.pipeline"),
        sequence_parallel=tensor > 1 and framework.name in _SEQUENCE_PARALLEL,
        units="blocks_and_embeddings" if apart else "blocks",
        pipeline_schedule="interleaved_1f1b" if _INTERLEAVED.search(_note(row)[:10_000]) else "1f1b",
        offload_parameters=offload in ("params", "all"),
    )


def _loss(row: Mapping[str, object], framework: Framework, parallel: Parallel) -> LossName:
    """Rows say how the loss is computed. Among torchtitan's tensor-parallel ranks it is divided unless that is
    disabled, which no row says."""
    loss = _choice(row, "loss", _LOSSES)
    gathered = framework.name == "torchtitan" and parallel.tensor > 1 and loss == "eager_fp32"
    return "default" if gathered else loss


def _chunks(row: Mapping[str, object], parallel: Parallel, framework: Framework) -> int:
    """Micro-batches that a pipeline makes of the local batch: torchtitan as many as there are ranks in it
    (pipelining_utils.py, n_microbatches), where they divide it."""
    stages = parallel.pipeline
    if framework.name != "torchtitan" or stages == 1 or _whole(row, "micro_batch") % stages:
        return 1
    return stages


def _method(row: Mapping[str, object], framework: Framework, source: str, model: Model) -> Method:
    name = _choice(row, "method", _METHODS)
    quantization = _lookup(row, "quantization", _QUANTIZATIONS)
    if quantization is not None:
        # LitGPT replaces every nn.Linear, the head too (its QLoRA rows: "lm_head is quantized too").
        quantization = msgspec.structs.replace(
            quantization,
            head=framework.name == "litgpt",
            prepared=(_get(row, "precision.weights") == "fp32" and _get(row, "precision.compute") != "fp32")
            or bool(_PREPARED.search(_note(row)[:10_000])),
        )
        hidden = model.get("hidden_size")
        if quantization.kind == "gptq4" and model.name.lower().startswith(_WHOLE_COLUMNS):
            quantization = msgspec.structs.replace(
                quantization, block=hidden if isinstance(hidden, int) else 128
            )
    if name == "full":
        if row.get("lora") is not None:
            raise UsageError("the row has the method full and a lora table")
        return Method(name="full", quantization=quantization)
    table = _table(row, "lora", {"rank", "target_modules", "dtype", "dropout"})
    targets = table.get("target_modules")
    if isinstance(targets, str):
        targets = [targets]
    if not isinstance(targets, list) or not targets or not all(isinstance(t, str) for t in targets):
        raise UsageError(f"the row's lora.target_modules is {targets!r:.100}, not a list of names")
    repository = source.lower()
    dropout = table.get("dropout", next((d for place, d in _DROPOUT.items() if place in repository), 0.0))
    if not isinstance(dropout, (int, float)) or isinstance(dropout, bool):
        raise UsageError(f"the row's lora.dropout is {dropout!r:.100}, not a number")
    adapters = Lora(
        rank=_whole(row, "lora.rank"),
        targets=tuple(targets),
        dropout=float(dropout),
        dtype=_choice(row, "lora.dtype", _DTYPES),
        dora=name == "dora",
    )
    return Method(name="qlora" if quantization else "lora", lora=adapters, quantization=quantization)


def _precision(row: Mapping[str, object], method: Method) -> Precision:
    _table(row, "precision", {"weights", "compute", "autocast", "master_weights", "grads"})
    master = _get(row, "precision.master_weights")
    if master not in (None, "fp32"):
        raise UsageError(f"unsupported: precision.master_weights {master!r:.100} (a job can say fp32)")
    grads = None if _get(row, "precision.grads") is None else _choice(row, "precision.grads", _DTYPES)
    compute = _choice(row, "precision.compute", _DTYPES)
    # Of a quantised model that was prepared, which weights are fp32 is the preparation's affair.
    prepared = method.quantization is not None and method.quantization.prepared
    return Precision(
        weights=compute if prepared else _choice(row, "precision.weights", _DTYPES),
        compute=compute,
        autocast=_flag(row, "precision.autocast"),
        master=master is not None,
        grads=grads,
    )


def _optimizer(row: Mapping[str, object]) -> Optimizer:
    _table(row, "optimizer", {"name", "impl", "state_dtype", "offload"})
    name = _choice(row, "optimizer.name", ("adamw", "adam", "sgd", "adafactor", "lion", "muon"))
    impl = _lookup(row, "optimizer.impl", _IMPLS)
    state = (
        None if _get(row, "optimizer.state_dtype") is None else _choice(row, "optimizer.state_dtype", _DTYPES)
    )
    host = _get(row, "parallel.cpu_offload") != "none"
    away = _flag(row, "optimizer.offload") or host
    if away and not host and not impl.startswith("bnb") and impl != "in_backward":
        raise UsageError(
            f"unsupported: optimizer.offload with {impl} and parallel.cpu_offload none (where are they?)"
        )
    return Optimizer(
        name=name,
        impl=impl,
        state=state,
        offload="none" if not away else "cpu" if host else "paged",
        # SGD has a moment tensor with momentum only, and its value changes no size.
        momentum=0.9 if name == "sgd" and state is not None else 0.0,
    )


def _checkpointing(row: Mapping[str, object]) -> Checkpointing:
    value = _get(row, "checkpointing")
    nth = _EVERY_N.fullmatch(value) if isinstance(value, str) else None
    if nth is not None and int(nth.group(1)) > 0:
        return Checkpointing(mode="every_n", every=int(nth.group(1)))
    return Checkpointing(mode=_choice(row, "checkpointing", _MODES))


def _hardware(row: Mapping[str, object], parallel: Parallel) -> Hardware:
    gpu = _get(row, "gpu")
    if not isinstance(gpu, str):
        raise UsageError(f"the row's gpu is {gpu!r:.100}, not a name")
    gpus = _whole(row, "num_gpus")
    if gpus != parallel.ranks:
        raise UsageError(
            f"the row has {gpus} GPUs and {parallel.ranks} ranks (data x tensor x context x pipeline)"
        )
    return Hardware(gpu=gpu if _cuda(row) else "", gpus=gpus)


def _cuda(row: Mapping[str, object]) -> bool:
    """Whether the row names a GPU of NVIDIA. Of others no capacity is known, and no verdict is given; PyTorch's
    counters are the same, and its expandable segments are not there (c10/hip)."""
    name = _get(row, "gpu")
    if not isinstance(name, str) or name == "unspecified":
        return False
    try:
        return gpu_of(name).is_cuda
    except UsageError:
        return True  # the plan says which names there are
