"""Words that people write for a precision, an optimizer, an attention, ... and what a job calls them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from oomph.errors import UsageError
from oomph.job.model import (
    AttentionName,
    Checkpointing,
    DType,
    LossName,
    Optimizer,
    OptimizerImpl,
    Precision,
    Quantization,
    Strategy,
)

T = TypeVar("T")

_HALVES: tuple[DType, ...] = ("bf16", "fp16")


def _precisions() -> dict[str, Precision]:
    """Pure, autocast (Lightning and Trainer call it mixed), with a second copy of the weights in fp32, and fp8 products
    over fp32 weights as torchao's."""
    table = {
        "fp32": Precision(),
        "tf32": Precision(compute="tf32"),
        "fp8": Precision(compute="fp8"),
    }
    for half in _HALVES:
        table[half] = Precision(weights=half, compute=half)
        table[f"{half}-autocast"] = Precision(compute=half, autocast=True)
        table[f"{half}-mixed"] = Precision(compute=half, autocast=True)
        table[f"{half}-master"] = Precision(weights=half, compute=half, master=True)
    return table


PRECISIONS = _precisions()
_PRECISION_ALIASES = {
    "32": "fp32", "float32": "fp32", "32-true": "fp32", "fp32-true": "fp32", "no": "fp32",
    "bfloat16": "bf16", "bf16-true": "bf16", "pure-bf16": "bf16", "float16": "fp16", "half": "fp16",
    "fp16-true": "fp16", "16-true": "fp16", "16-mixed": "fp16-mixed", "amp": "fp16-autocast", "float8": "fp8",
}  # fmt: skip


def _adamw(impl: OptimizerImpl, state: DType | None = None) -> Optimizer:
    paged = impl == "bnb_paged"
    return Optimizer(impl=impl, state=state, offload="paged" if paged else "none")


OPTIMIZERS: Mapping[str, Optimizer] = {
    "adamw": _adamw("foreach"),
    "adamw-foreach": _adamw("foreach"),
    "adamw-fused": _adamw("fused"),
    "adamw-for-loop": _adamw("for_loop"),
    "adamw-capturable": _adamw("capturable"),
    "adamw-in-backward": _adamw("in_backward"),
    "adamw8bit": _adamw("bnb", "int8"),
    "paged-adamw": _adamw("bnb_paged", "fp32"),
    "paged-adamw8bit": _adamw("bnb_paged", "int8"),
    "torchao-adamw8bit": _adamw("torchao", "int8"),
    "torchao-adamw4bit": _adamw("torchao", "int4"),
    "adam": Optimizer(name="adam"),
    "adam-fused": Optimizer(name="adam", impl="fused"),
    "sgd": Optimizer(name="sgd"),
    "sgd-momentum": Optimizer(name="sgd", momentum=0.9),
    "adafactor": Optimizer(name="adafactor", impl="for_loop"),
    "lion": Optimizer(name="lion", impl="for_loop"),
    "lion-bnb": Optimizer(name="lion", impl="bnb", state="fp32"),
    "lion8bit": Optimizer(name="lion", impl="bnb", state="int8"),
    "paged-lion": Optimizer(name="lion", impl="bnb_paged", state="fp32", offload="paged"),
    "paged-lion8bit": Optimizer(name="lion", impl="bnb_paged", state="int8", offload="paged"),
    "muon": Optimizer(name="muon", impl="for_loop"),
}
#: Other spellings, those of transformers' `optim` among them.
_OPTIMIZER_ALIASES = {
    "adamw-torch": "adamw-foreach",
    "adamw-torch-fused": "adamw-fused",
    "adamw-forloop": "adamw-for-loop",
    "adamw-bnb-8bit": "adamw8bit",
    "adamw-8bit": "adamw8bit",
    "paged-adamw-8bit": "paged-adamw8bit",
    "paged-adamw-32bit": "paged-adamw",
    "adamw-torch-8bit": "torchao-adamw8bit",
    "adamw-torch-4bit": "torchao-adamw4bit",
    "torchao-adamw-8bit": "torchao-adamw8bit",
    "torchao-adamw-4bit": "torchao-adamw4bit",
    "lion-32bit": "lion-bnb",
    "lion-8bit": "lion8bit",
    "paged-lion-32bit": "paged-lion",
    "paged-lion-8bit": "paged-lion8bit",
}

ATTENTIONS: Mapping[str, AttentionName] = {
    "eager": "eager",
    "sdpa": "sdpa",
    "sdpa-flash": "sdpa_flash",
    "sdpa-efficient": "sdpa_efficient",
    "sdpa-math": "sdpa_math",
    "flash-attention-2": "flash_attention_2",
    "flash-attention-3": "flash_attention_3",
    "flex": "flex",
}
_ATTENTION_ALIASES = {
    "fa2": "flash-attention-2",
    "flash": "flash-attention-2",
    "flash-attn": "flash-attention-2",
    "flash2": "flash-attention-2",
    "fa3": "flash-attention-3",
    "flash3": "flash-attention-3",
    "flex-attention": "flex",
    "efficient": "sdpa-efficient",
    "math": "sdpa-math",
}

LOSSES: Mapping[str, LossName] = {
    "default": "default",
    "eager-fp32": "eager_fp32",
    "eager-bf16": "eager_bf16",
    "triton-ce": "triton_ce",
    "chunked-ce": "chunked_ce",
    "fused-linear-ce": "fused_linear_ce",
    "loss-parallel": "loss_parallel",
}
_LOSS_ALIASES = {
    "fp32": "eager-fp32",
    "bf16": "eager-bf16",
    "chunked": "chunked-ce",
    "fused": "fused-linear-ce",
    "liger": "fused-linear-ce",
    "fused-linear": "fused-linear-ce",
    "parallel": "loss-parallel",
}

FSDP2: Mapping[str, Strategy] = {
    "full": "fsdp2_full",
    "no-reshard": "fsdp2_no_reshard",
    "hybrid": "fsdp2_hybrid_shard",
}
FSDP1: Mapping[str, Strategy] = {
    "full": "fsdp1_full_shard",
    "grad-op": "fsdp1_shard_grad_op",
    "hybrid": "fsdp1_hybrid_shard",
    "no-shard": "fsdp1_no_shard",
}
_SHARDING_ALIASES = {
    "full-shard": "full",
    "shard-grad-op": "grad-op",
    "grad-op": "no-reshard",
    "hybrid-shard": "hybrid",
    "hsdp": "hybrid",
    "noshard": "no-shard",
}

QUANTIZATIONS: Mapping[str, Quantization] = {
    "nf4": Quantization(kind="nf4"),
    "nf4-double": Quantization(kind="nf4", double=True),
    "fp4": Quantization(kind="fp4"),
    "fp4-double": Quantization(kind="fp4", double=True),
    "int8": Quantization(kind="int8"),
    "gptq4": Quantization(kind="gptq4", block=128),
}

OFFLOADS = ("parameters", "optimizer", "activations", "nvme")
_OFFLOAD_ALIASES = {"params": "parameters", "parameter": "parameters", "optim": "optimizer"}

_CHECKPOINTING = {
    "none": Checkpointing(),
    "full": Checkpointing(mode="full"),
    "selective": Checkpointing(mode="selective_op"),
}


def precision(word: str) -> Precision:
    """A precision. Raises UsageError, with what there is, for a word that is none."""
    return choice("--precision", word, PRECISIONS, _PRECISION_ALIASES)


def optimizer(word: str) -> Optimizer:
    """An optimizer and how it is implemented. Raises UsageError as `precision` does, as do all of these."""
    return choice("--optimizer", word, OPTIMIZERS, _OPTIMIZER_ALIASES)


def attention(word: str) -> AttentionName:
    """An implementation of attention."""
    return choice("--attention", word, ATTENTIONS, _ATTENTION_ALIASES)


def loss(word: str) -> LossName:
    """How the loss is computed."""
    return choice("--loss", word, LOSSES, _LOSS_ALIASES)


def fsdp(option: str, word: str) -> Strategy:
    """A strategy of FSDP: `--fsdp` is FSDP2 (fully_shard), `--fsdp1` FullyShardedDataParallel."""
    return choice(option, word, FSDP1 if option == "--fsdp1" else FSDP2, _SHARDING_ALIASES)


def quantization(word: str) -> Quantization:
    """How frozen weights are stored."""
    return choice("--quantization", word, QUANTIZATIONS, {"gptq": "gptq4", "8bit": "int8", "4bit": "nf4"})


def offloads(words: Iterable[str]) -> frozenset[str]:
    """What lives on the host; "all" is parameters and optimizer."""
    found: set[str] = set()
    for word in (part for each in words for part in each.split(",")):
        if word.strip().lower() == "all":
            found |= {"parameters", "optimizer"}
        else:
            found.add(choice("--offload", word, {name: name for name in OFFLOADS}, _OFFLOAD_ALIASES))
    return frozenset(found)


def checkpointing(word: str) -> Checkpointing:
    """none, full, selective, or a number N: every N-th block."""
    text = word.strip()
    if text.isascii() and text.isdigit() and len(text) < 6 and int(text) > 0:
        every = int(text)
        return Checkpointing(mode="full") if every == 1 else Checkpointing(mode="every_n", every=every)
    return choice(
        "--checkpointing", word, _CHECKPOINTING, {"selective-op": "selective", "off": "none", "on": "full"}
    )


def choice(option: str, word: str, table: Mapping[str, T], aliases: Mapping[str, str]) -> T:
    """What a word stands for, whatever its case and separators. Raises UsageError with what there is."""
    key = "-".join(word.strip().lower().replace("_", "-").split())
    for _ in range(2):  # an alias may lead to another
        if key not in table:
            key = aliases.get(key, key)
    if key in table:
        return table[key]
    shown = "".join(letter if letter.isprintable() else "?" for letter in word.strip()[:60])
    raise UsageError(f"{option} {shown or repr(shown)}: it takes {_listed(table)}.")


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
