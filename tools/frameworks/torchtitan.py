"""torchtitan's Llama: the class of a commit, with the loss that its train.py takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tools.frameworks.recordings import Loss, Recording
from tools.frameworks.trees import module

STAND_INS = (
    "triton",
    "torchtitan.config_manager",
    "torchtitan.components",
    "torchtitan.protocols",
    "torchtitan.tools",
)
#: Packages whose own code imports the whole trainer.
BARE = ("torchtitan", "torchtitan.models", "torchtitan.models.llama", "torchtitan.models.llama3")
FAMILIES = ("llama",)


def recordings(family: str) -> Iterator[Recording]:
    """Under FSDP2's mixed precision a block sees bf16 alone; without FSDP weights are fp32, with autocast in 2025."""
    del family
    for heads in ("grouped", "equal"):
        for precision in ("bf16", "fp32", "fp32-autocast"):
            yield Recording(
                build=_build,
                layers="layers",
                losses=(Loss("eager_fp32", _run, "output"), Loss("compiled_ce", _compiled, "output")),
                heads=heads,
                precision=precision,
                hidden=False,
            )


def _build(dimensions: Mapping[str, int]) -> Any:
    try:
        llama = module("torchtitan.models.llama.model")
        arguments = llama.ModelArgs
    except ImportError:
        llama = module("torchtitan.models.llama3.model")
        arguments = llama.TransformerModelArgs
        _before_blackwell()
    _composite_norms()
    net = llama.Transformer(
        arguments(
            dim=dimensions["hidden"],
            n_layers=dimensions["layers"],
            n_heads=dimensions["heads"],
            n_kv_heads=dimensions["kv_heads"],
            vocab_size=dimensions["vocab"],
            max_seq_len=dimensions["s"],
            multiple_of=1,
        )
    )
    _widths(net, dimensions)
    # its rotary table is complex: FSDP casts no buffers
    moves = net.to

    def keeps_buffers(target: Any) -> Any:
        import torch

        if isinstance(target, torch.dtype):
            for parameter in net.parameters():
                parameter.data = parameter.data.to(target)
            return net
        return moves(target)

    net.to = keeps_buffers
    return net


def _before_blackwell() -> None:
    """On GPUs before Blackwell it asks for these kernels, in this order (torchtitan/models/attention.py)."""
    from torch.nn.attention import SDPBackend

    chosen = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    module("torchtitan.models.attention").ScaledDotProductAttention.backends = chosen


def _widths(net: Any, dimensions: Mapping[str, int]) -> None:
    """Its MLP's width is made of factors and multiples; here it is the dimension `intermediate`."""
    import torch

    hidden, wide = dimensions["hidden"], dimensions["intermediate"]
    for layer in net.layers.values():
        layer.feed_forward.w1 = torch.nn.Linear(hidden, wide, bias=False)
        layer.feed_forward.w3 = torch.nn.Linear(hidden, wide, bias=False)
        layer.feed_forward.w2 = torch.nn.Linear(wide, hidden, bias=False)


def _composite_norms() -> None:
    """Before torch 2.9, nn.RMSNorm was made of single operators (aten/src/ATen/native/layer_norm.cpp, rms_norm): a cast
    to fp32, its square's mean, the product with the root's inverse, that with the weight, a cast back."""
    import torch

    def forward(self: Any, x: Any) -> Any:
        upcast = x.to(torch.float32)
        inverse = torch.rsqrt(torch.pow(upcast, 2).mean(-1, keepdim=True).add_(self.eps))
        result = upcast.mul(inverse)
        if self.weight is not None:
            result = result.mul(self.weight)
        return result.type_as(x)

    torch.nn.RMSNorm.forward = forward


def _run(net: Any, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """train.py: `pred` is deleted before backward."""
    import torch

    del dimensions
    pred = net(batch["input_ids"])

    def loss_fn(pred: Any, labels: Any) -> Any:
        return torch.nn.functional.cross_entropy(pred.flatten(0, 1).float(), labels.flatten(0, 1))

    loss = loss_fn(pred, batch["labels"])
    del pred
    return {"loss": loss}


def _compiled(net: Any, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    """The loss under torch.compile: one kernel reads the logits, and backward's writes their gradient anew, in their
    type. nll_loss of the logits themselves holds and makes the same."""
    import torch

    del dimensions
    pred = net(batch["input_ids"])

    def loss_fn(pred: Any, labels: Any) -> Any:
        return torch.nn.functional.nll_loss(pred.flatten(0, 1), labels.flatten(0, 1))

    loss = loss_fn(pred, batch["labels"])
    del pred
    return {"loss": loss}
