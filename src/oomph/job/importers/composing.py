"""From facts to a job: what only several facts together decide (precision, ranks, accumulation, "auto")."""

from __future__ import annotations

from collections.abc import Callable

from oomph.errors import OomphError, UsageError
from oomph.job.config import stored_dtype
from oomph.job.importers.imported import Value
from oomph.job.importers.merging import Facts
from oomph.job.importers.values import whole
from oomph.job.model import Dimension, Framework, Model

#: DeepSpeed's "auto" for sizes, as shares of the hidden size (transformers/integrations/deepspeed.py).
_AUTO: dict[str, tuple[str, Callable[[int], int]]] = {
    "reduce_bucket_size": ("parallel.zero_reduce_bucket", lambda h: h * h),
    "stage3_prefetch_bucket_size": ("parallel.zero_prefetch_bucket", lambda h: int(0.9 * h * h)),
    "stage3_param_persistence_threshold": ("parallel.zero_persistence_threshold", lambda h: 10 * h),
}


def model(facts: Facts) -> Model:
    """The model: of a config.json, or by its name where one of that name is known here; else the name alone."""
    known = _with_pipeline(facts, _model(facts))
    if facts.get("given.untied") and known.get("tie_word_embeddings") is not False and known.config:
        others = [each for each in known.config if each.key != "tie_word_embeddings"]
        untied = Dimension(key="tie_word_embeddings", value=False)
        known = Model(
            name=known.name, family=known.family, config=tuple(sorted([*others, untied], key=lambda d: d.key))
        )
    return known


def _with_pipeline(facts: Facts, known: Model) -> Model:
    """What a denoiser's script has beside it, under `pipeline` of its configuration."""
    beside = [
        Dimension(key=path.removeprefix("given."), value=True)
        for path, value in facts.values.items()
        if path.startswith("given.pipeline.") and value.value is True
    ]
    if not beside or not known.family:
        return known
    config = sorted([*known.config, *beside], key=lambda each: each.key)
    return Model(name=known.name, family=known.family, config=tuple(config))


def _model(facts: Facts) -> Model:
    name = str(facts.get("model.name") or "")
    if facts.model is not None:
        known = facts.model
        return known if not name or known.name else Model(name=name, family=known.family, config=known.config)
    if not name:
        return Model()
    try:
        from oomph.job.names import model as by_name

        return by_name(name)
    except OomphError as error:
        facts.note(f"the model {name} is not known here: give its config.json as well ({error})")
        return Model(name=name)


def framework(facts: Facts) -> Framework:
    """Whose code trains, and the versions that the files name."""
    versions = {
        path.removeprefix("given.version."): str(value.value)
        for path, value in facts.values.items()
        if path.startswith("given.version.")
    }
    return Framework(name=str(facts.get("framework.name") or ""), versions=tuple(sorted(versions.items())))


def ranks(facts: Facts) -> None:
    """GPUs and the ranks of each kind; the strategy of several ranks where none is written."""
    others = 1
    for part in ("tensor", "context", "pipeline"):
        others *= whole(facts.get(f"parallel.{part}")) or 1
    gpus, data = whole(facts.get("hardware.gpus")), whole(facts.get("parallel.data"))
    nodes = whole(facts.get("given.nodes")) or 1
    if gpus is None and facts.said("given.gpus_per_node"):
        gpus = (whole(facts.get("given.gpus_per_node")) or 1) * nodes
        facts.values["hardware.gpus"] = Value(gpus, f"{nodes} nodes")
        if nodes > 1:
            facts.values["hardware.per_node"] = Value(gpus // nodes, f"{nodes} nodes")
    if gpus is not None and data is None:
        if gpus % others:
            raise UsageError(
                f"{gpus} GPUs are not divided by {others} ranks of tensor x context x pipeline parallelism"
            )
        data = gpus // others
        facts.values["parallel.data"] = Value(data, f"{gpus} GPUs / {others}")
    elif gpus is None:
        facts.values["hardware.gpus"] = Value((data or 1) * others, "the ranks")
        if facts.get("parallel.strategy") not in (None, "none") and data is None:
            facts.note(
                "how many GPUs there are is in none of the files (they are counted by the launcher): 1 is planned"
            )
    if facts.get("parallel.strategy") is None and (data or 1) > 1:
        chosen = facts.values.get("given.many") or Value(
            "ddp", "several ranks and no word on how", default=True
        )
        facts.values["parallel.strategy"] = chosen
        if facts.get("given.checkpoints_if_many"):
            facts.values["checkpointing.mode"] = Value(
                "full", facts.values["given.checkpoints_if_many"].quote, default=True
            )


def batch(facts: Facts) -> None:
    """The accumulation from a batch of all ranks, and the other way round."""
    total = whole(facts.get("given.global_batch"))
    data, micro = whole(facts.get("parallel.data")) or 1, whole(facts.get("batch.micro"))
    accumulation = whole(facts.get("batch.accumulation"))
    if total is None:
        return
    quote = facts.values["given.global_batch"].quote
    said_micro, said_accumulation = facts.said("batch.micro"), facts.said("batch.accumulation")
    if said_micro and said_accumulation and micro and accumulation:
        if micro * accumulation * data != total:
            facts.note(
                f"{quote} is not micro-batch {micro} x accumulation {accumulation} x {data} data ranks "
                f"= {micro * accumulation * data}"
            )
        return
    if said_accumulation and accumulation and not said_micro:
        micro = max(1, total // (accumulation * data))
        facts.values["batch.micro"] = Value(micro, f"{quote} / {accumulation} / {data} ranks")
    elif micro:
        steps, rest = divmod(total, micro * data)
        if rest or not steps:
            facts.note(f"{quote} is not a multiple of micro-batch {micro} x {data} data ranks")
        facts.values["batch.accumulation"] = Value(max(1, steps), f"{quote} / {micro} / {data} ranks")


def deepspeed_auto(facts: Facts, known: Model) -> None:
    """What transformers fills in for "auto"."""
    left = {path: str(value.value) for path, value in facts.values.items() if path.startswith("given.auto.")}
    if not left:
        return
    hidden = whole(known.get("hidden_size", known.get("text_config.hidden_size")))
    open_keys = []
    for key in left.values():
        target = _AUTO.get(key.rsplit(".", 1)[-1])
        if target is None:
            continue
        if hidden:
            facts.values[target[0]] = Value(target[1](hidden), f"{key} = auto: from hidden_size {hidden}")
        else:
            open_keys.append(key)
    if open_keys:
        facts.note(
            f"{', '.join(open_keys)} = \"auto\" needs the model's hidden size: DeepSpeed's defaults are planned"
        )
    name = facts.get("framework.name")
    if name in (None, ""):
        facts.note(
            f"\"auto\" in DeepSpeed's file ({', '.join(sorted(left.values())[:6])}) is filled in from the trainer's "
            "arguments: give them as well"
        )


def precision(facts: Facts, known: Model) -> None:
    """precision.* from the kind of mixed precision, how weights are loaded, and the strategy."""
    if "precision.weights" in facts.values:
        sharded = str(facts.get("parallel.strategy") or "none").startswith(("fsdp", "zero"))
        differs = facts.get("precision.weights") != facts.get("precision.compute")
        if facts.get("given.autocast_unless_sharded") and not sharded and differs:
            facts.values["precision.autocast"] = Value(True, "autocast where nothing is sharded")
        return
    mixed = facts.get("given.mixed") or "no"
    loaded = _loaded(facts, known)
    strategy = str(facts.get("parallel.strategy") or "none")
    quote = facts.values["given.mixed"].quote if "given.mixed" in facts.values else "no mixed precision"
    adapters = any(path.startswith("method.lora.") for path in facts.values) or bool(facts.get("given.lora"))
    if strategy.startswith("zero") and mixed in ("bf16", "fp16"):
        # DeepSpeed casts the module, and steps on fp32 partitions of its own (runtime/engine.py, zero/stage*.py).
        parts: dict[str, object] = {"weights": mixed, "compute": mixed, "master": True, "autocast": False}
        facts.values.setdefault("optimizer.state", Value("fp32", "ZeRO: moments of the fp32 partitions"))
        if facts.values["optimizer.state"].value is None:
            facts.values["optimizer.state"] = Value("fp32", "ZeRO: moments of the fp32 partitions")
        if adapters:
            facts.values["method.lora.dtype"] = Value(mixed, "DeepSpeed casts the whole module")
    elif mixed in ("bf16", "fp16"):
        weights = loaded
        if facts.get("given.frozen_in_mixed") and mixed == "bf16":
            facts.values.setdefault("method.lora.dtype", Value("bf16", "PEFT: as the layers that they adapt"))
        # accelerate: trainable parameters of low precision are cast to fp32 before FSDP shards them.
        if not adapters and strategy.startswith("fsdp"):
            weights = "fp32"
        parts = {"weights": weights, "compute": mixed, "autocast": True}
    elif mixed == "fp8":
        parts = {"weights": loaded, "compute": "fp8", "autocast": True}
    else:
        compute = "tf32" if loaded == "fp32" and facts.get("given.tf32") else loaded
        parts = {"weights": loaded, "compute": compute, "autocast": False}
    for part, value in parts.items():
        facts.values.setdefault(f"precision.{part}", Value(value, quote))


def _loaded(facts: Facts, known: Model) -> str:
    """The dtype in which the weights are loaded."""
    given = facts.get("given.weights")
    if isinstance(given, str) and given != "auto":
        return given
    if facts.get("given.frozen_in_mixed") and facts.get("given.mixed") in ("bf16", "fp16"):
        return str(facts.get("given.mixed"))
    stored = stored_dtype(known)
    version = framework(facts).version("transformers")
    if given == "auto" or (
        given is None and version is not None and version >= (5,) and _plain_transformers(facts)
    ):
        if stored is None:
            facts.note(
                "weights are taken as fp32: they are loaded as the model's config.json says, which is not known"
            )
        return stored or "fp32"
    quantized = any(path.startswith("method.quantization.") for path in facts.values)
    if quantized:
        # transformers until 4.x loads the rest of a quantised model in fp16; with bf16 people ask for bf16.
        mixed = facts.get("given.mixed")
        return mixed if mixed in ("bf16", "fp16") and isinstance(mixed, str) else "fp16"
    if _plain_transformers(facts) and version is None and stored not in (None, "fp32"):
        facts.note(
            f"weights are taken as fp32, which is how transformers until 4.x loads without dtype; 5.x loads {stored}, "
            "as config.json says"
        )
    return "fp32"


def _plain_transformers(facts: Facts) -> bool:
    return facts.get("framework.name") in ("transformers", "", None)


def optimizer(facts: Facts) -> None:
    """transformers' default where nothing is written; the implementation depends on versions."""
    if facts.get("optimizer.name") is not None or facts.get("given.optimizer") != "hf":
        return
    versions = framework(facts)
    version, torch = versions.version("transformers"), versions.version("torch")
    # training_args.py: the fused one since 4.54, where PyTorch is 2.8 or later.
    new_torch = torch >= (2, 8) if torch is not None else version is not None and version >= (5,)
    fused = version is not None and version >= (4, 54) and new_torch
    default = facts.values["given.optimizer"].quote
    which = "adamw_torch_fused" if fused else "adamw_torch"
    facts.values["optimizer.name"] = Value("adamw", f"{default}: {which}")
    facts.values["optimizer.impl"] = Value("fused" if fused else "foreach", f"{default}: {which}")
    if fused or (version is not None and (version < (4, 54) or torch is not None)):
        facts.note(f"optimizer: {default}: {which}")
    else:
        facts.note(
            "optim is not written: adamw_torch (foreach) is planned; from transformers 4.54 with PyTorch 2.8 it is "
            "adamw_torch_fused, which needs less"
        )


def method(facts: Facts) -> None:
    """method.name from adapters and quantisation."""
    quantized = facts.get("method.quantization.kind") is not None
    lora = facts.get("given.lora")
    written = [path for path in facts.values if path.startswith("method.lora.")]
    if lora is None and any(facts.said(path) for path in written) and "method.name" not in facts.values:
        facts.note("adapters are taken as on, since a file gives their settings")
        lora = True
    if lora:
        facts.values["method.name"] = Value("qlora" if quantized else "lora", "adapters")
        facts.values.setdefault("method.lora.rank", Value(8, "PEFT's default of r", default=True))
    elif written and facts.get("method.name") not in ("lora", "qlora"):
        for path in written:
            del facts.values[path]
    if not quantized:
        for path in [p for p in facts.values if p.startswith("method.quantization.")]:
            del facts.values[path]
    elif "method.quantization.prepared" not in facts.values and facts.get("framework.name") in (
        "transformers",
        "trl",
        None,
    ):
        facts.values["method.quantization.prepared"] = Value(
            True, "prepare_model_for_kbit_training, as TRL and PEFT's guides have it", default=True
        )
