"""torchtune's Llama 3 decoder, with and without its LoRA, and its chunked loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from tools.frameworks.recordings import Loss, Recording
from tools.frameworks.trees import module

STAND_INS = ("torchao", "torchtune.data", "torchtune.utils", "torchtune.modules.tokenizers")
BARE = ("torchtune", "torchtune.models", "torchtune.models.llama3")
FAMILIES = ("llama",)
#: torchtune.modules.loss.CEWithChunkedOutputLoss: eight whatever the length.
_CHUNKS = 8
#: What its Llama 3.1 configurations adapt, what its README's table adapts, and everything; as jobs name it.
_TARGETS: tuple[tuple[str, ...], ...] = (
    ("q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
    ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
    ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"),
    ("q_proj", "k_proj", "v_proj", "o_proj"),
    ("q_proj", "k_proj", "v_proj"),
    ("q_proj", "v_proj"),
)


def recordings(family: str) -> Iterator[Recording]:
    """bf16 as its recipes train, fp32 as they do where asked."""
    del family
    chunked = Loss("chunked_ce", _chunked, "norm")
    compiled = Loss("compiled_chunked_ce", _compiled, "norm")
    whole = Loss("eager_fp32", _whole, "output")
    for heads in ("grouped", "equal"):
        ways = partial(Recording, layers="layers", heads=heads, hidden=False)
        yield ways(partial(_build, None, False), losses=(chunked, compiled, whole))
        yield ways(partial(_build, None, False), losses=(chunked,), precision="fp32")
        for targets in _TARGETS:
            # dropout is 0 in its configurations of 2024
            lora = {"targets": list(targets), "dropout": False}
            yield ways(partial(_build, targets, False), losses=(chunked, compiled), lora=lora)


def _build(targets: tuple[str, ...] | None, dropout: bool, dimensions: Mapping[str, int]) -> Any:
    builders = module("torchtune.models.llama3._component_builders")
    settings = {
        "vocab_size": dimensions["vocab"],
        "num_layers": dimensions["layers"],
        "num_heads": dimensions["heads"],
        "num_kv_heads": dimensions["kv_heads"],
        "embed_dim": dimensions["hidden"],
        "max_seq_len": dimensions["positions"],
        "intermediate_dim": dimensions["intermediate"],
    }
    if targets is None:
        return _anew(builders.llama3(**settings))
    net = builders.lora_llama3(
        [
            name.replace("o_proj", "output_proj")
            for name in targets
            if name in ("q_proj", "k_proj", "v_proj", "o_proj")
        ],
        "gate_proj" in targets,
        "lm_head" in targets,
        **settings,
        lora_rank=dimensions["rank"],
        lora_alpha=16,
        lora_dropout=0.05 if dropout else 0.0,
    )
    return _anew(net)


def _anew(net: Any) -> Any:
    """Layers are copies of one; views of copied simulated parameters lie elsewhere, so they are made anew."""
    import torch

    for owner in list(net.modules()):
        for name, parameter in list(owner.named_parameters(recurse=False)):
            made = torch.empty(parameter.shape, dtype=parameter.dtype)
            setattr(owner, name, torch.nn.Parameter(made, parameter.requires_grad))
    return net


def _shifted(labels: Any, ignore: int) -> Any:
    import torch

    return torch.hstack((labels[..., 1:], torch.full((labels.shape[0], 1), ignore, device=labels.device)))


def _chunked(net: Any, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """recipes/*_finetune_*.py: eight pieces of logits, deleted before backward."""
    del dimensions
    loss_fn = module("torchtune.modules.loss.ce_chunked_output_loss").CEWithChunkedOutputLoss(_CHUNKS)
    net.set_num_output_chunks(_CHUNKS)
    logits = net(batch["input_ids"])
    loss = loss_fn(logits, _shifted(batch["labels"], loss_fn.ignore_index))
    del logits
    return {"loss": loss}


def _compiled(net: Any, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """The same with compute_cross_entropy compiled: a chunk's kernel reads its logits, backward's writes their gradient
    in their type. nll_loss of the logits themselves holds and makes the same."""
    import torch

    del dimensions
    loss_fn = module("torchtune.modules.loss.ce_chunked_output_loss").CEWithChunkedOutputLoss(_CHUNKS)
    loss_fn.compute_cross_entropy = partial(torch.nn.functional.nll_loss, reduction="sum")
    net.set_num_output_chunks(_CHUNKS)
    logits = net(batch["input_ids"])
    loss = loss_fn(logits, _shifted(batch["labels"], loss_fn.ignore_index))
    del logits
    return {"loss": loss}


def _whole(net: Any, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """Without the chunked loss, the decoder casts all logits to fp32."""
    import torch

    del dimensions
    net.num_output_chunks = 0
    logits = net(batch["input_ids"])
    labels = _shifted(batch["labels"], -100).reshape(-1)
    logits = logits.reshape(-1, logits.size(-1))
    loss = torch.nn.functional.cross_entropy(logits, labels)
    del logits
    return {"loss": loss}
