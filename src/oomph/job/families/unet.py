"""The UNet of Stable Diffusion 1, 2 and XL: diffusers' UNet2DConditionModel."""

from __future__ import annotations

from collections.abc import Mapping

from oomph.errors import UsageError
from oomph.job.families.build import Parts, Reader
from oomph.job.families.denoisers import timestep
from oomph.job.model import Model

__all__ = ["DEFAULTS", "build", "dimensions", "same"]

DEFAULTS: dict[str, dict[str, object]] = {
    "UNet2DConditionModel": {
        "in_channels": 4,
        "out_channels": 4,
        "down_block_types": (
            "CrossAttnDownBlock2D",
            "CrossAttnDownBlock2D",
            "CrossAttnDownBlock2D",
            "DownBlock2D",
        ),
        "mid_block_type": "UNetMidBlock2DCrossAttn",
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        "block_out_channels": (320, 640, 1280, 1280),
        "layers_per_block": 2,
        "cross_attention_dim": 1280,
        "transformer_layers_per_block": 1,
        "use_linear_projection": False,
        "only_cross_attention": False,
        "dual_cross_attention": False,
        "class_embeddings_concat": False,
    }
}
#: What else decides what a UNet runs, with the class's defaults.
_MORE: dict[str, object] = {
    "attention_head_dim": 8,
    "num_attention_heads": None,
    "norm_num_groups": 32,
    "addition_embed_type": None,
    "addition_time_embed_dim": None,
    "projection_class_embeddings_input_dim": None,
    "act_fn": "silu",
    "resnet_time_scale_shift": "default",
    "upcast_attention": False,
    "attention_type": "default",
    "dropout": 0.0,
}
#: Keys that change the model in ways that this file does not follow, where they are set.
_OTHER = (
    "class_embed_type",
    "encoder_hid_dim_type",
    "num_class_embeds",
    "time_cond_proj_dim",
    "time_embedding_dim",
    "cross_attention_norm",
    "reverse_transformer_layers_per_block",
)
_SWITCHES = ("only_cross_attention", "dual_cross_attention", "class_embeddings_concat")
#: Features of the pooled text and the image's sizes: only "text_time" (XL) is followed.
_ADDED = "text_time"


def same(model: Model, config: Mapping[str, object]) -> bool:
    """Whether a model runs what a UNet of this configuration does. What a configuration gives for all blocks alike may
    be one number, or one for each."""
    read = Reader(model, {**DEFAULTS["UNet2DConditionModel"], **_MORE})
    other = {**DEFAULTS["UNet2DConditionModel"], **_MORE, **config}
    keys = (*DEFAULTS["UNet2DConditionModel"], *_MORE, *_OTHER)
    return all(_plain(read.raw(key)) == _plain(other.get(key)) for key in keys)


def _plain(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return value[0] if len(set(value)) == 1 else tuple(value)
    return value


def dimensions(read: Reader) -> dict[str, int]:
    """`hidden` is the width of the first blocks, `text` that of the text's features; `layers` counts the blocks down,
    in the middle and up."""
    widths = read.numbers("block_out_channels")
    if not widths or not all(widths):
        raise UsageError(f"block_out_channels of {read.who} must be a list of widths.")
    return {
        "layers": 2 * len(widths) + 1,
        "hidden": widths[0],
        "channels": read.number("in_channels"),
        "out_channels": read.number("out_channels"),
        "text": read.number("cross_attention_dim"),
        "time": 4 * widths[0],
    }


def _of_each(read: Reader, key: str, count: int) -> tuple[int, ...]:
    """A number for each block, of which a configuration may give one for all."""
    values = read.numbers(key) if isinstance(read.raw(key), tuple) else (read.number(key),) * count
    if len(values) != count or not all(values):
        raise UsageError(f"{key} of {read.who} must be one number, or one for each of its {count} blocks.")
    return values


def _kinds(read: Reader, key: str, plain: str, attending: str, count: int) -> tuple[bool, ...]:
    """For each block, whether it has attention."""
    values = read.raw(key)
    if (
        not isinstance(values, tuple)
        or len(values) != count
        or any(one not in (plain, attending) for one in values)
    ):
        raise UsageError(
            f"unsupported: {key} of {read.who} has blocks other than {plain} and {attending}; "
            "`oomph trace` measures it from code."
        )
    return tuple(one == attending for one in values)


def _resnet(parts: Parts, name: str, inputs: int, outputs: int, time: int) -> None:
    with parts.under(name):
        parts.norm("norm1", inputs, bias=True)
        parts.conv("conv1", inputs, outputs, (3, 3), bias=True)
        parts.linear("time_emb_proj", time, outputs, bias=True)
        parts.norm("norm2", outputs, bias=True)
        parts.conv("conv2", outputs, outputs, (3, 3), bias=True)
        if inputs != outputs:
            parts.conv("conv_shortcut", inputs, outputs, (1, 1), bias=True)


def _transformer(parts: Parts, name: str, width: int, depth: int, text: int, linear: bool) -> None:
    """Transformer2DModel with BasicTransformerBlocks."""
    with parts.under(name):
        parts.norm("norm", width, bias=True)
        for end in ("proj_in", "proj_out"):
            if end == "proj_out":
                _basic_blocks(parts, width, depth, text)
            if linear:
                parts.linear(end, width, width, bias=True)
            else:
                parts.conv(end, width, width, (1, 1), bias=True)


def _basic_blocks(parts: Parts, width: int, depth: int, text: int) -> None:
    for number in range(depth):
        with parts.under(f"transformer_blocks.{number}"):
            for order, source in ((1, width), (2, text)):
                parts.norm(f"norm{order}", width, bias=True)
                parts.linear(f"attn{order}.to_q", width, width)
                parts.linear(f"attn{order}.to_k", source, width)
                parts.linear(f"attn{order}.to_v", source, width)
                parts.linear(f"attn{order}.to_out.0", width, width, bias=True)
            parts.norm("norm3", width, bias=True)
            parts.linear("ff.net.0.proj", width, 8 * width, bias=True)  # GEGLU: twice four times the width
            parts.linear("ff.net.2", 4 * width, width, bias=True)


class _Blocks:
    """The blocks of one UNet."""

    def __init__(self, parts: Parts, read: Reader, dims: dict[str, int]) -> None:
        self.parts, self.dims = parts, dims
        self.widths = read.numbers("block_out_channels")
        count = len(self.widths)
        self.layers = _of_each(read, "layers_per_block", count)
        self.depths = _of_each(read, "transformer_layers_per_block", count)
        self.down_attends = _kinds(read, "down_block_types", "DownBlock2D", "CrossAttnDownBlock2D", count)
        self.up_attends = _kinds(read, "up_block_types", "UpBlock2D", "CrossAttnUpBlock2D", count)
        self.linear = read.switch("use_linear_projection")

    def _attend(self, name: str, width: int, depth: int) -> None:
        _transformer(self.parts, name, width, depth, self.dims["text"], self.linear)

    def down(self) -> None:
        before = self.widths[0]
        for number, width in enumerate(self.widths):
            with self.parts.under(f"down_blocks.{number}"):
                if self.down_attends[number]:
                    for each in range(self.layers[number]):
                        self._attend(f"attentions.{each}", width, self.depths[number])
                for each in range(self.layers[number]):
                    _resnet(
                        self.parts, f"resnets.{each}", width if each else before, width, self.dims["time"]
                    )
                if number < len(self.widths) - 1:
                    self.parts.conv("downsamplers.0.conv", width, width, (3, 3), bias=True)
            before = width

    def up(self) -> None:
        """Each takes what the block below gives and, at each of its layers, what the way down left."""
        widths, last = tuple(reversed(self.widths)), len(self.widths) - 1
        before = widths[0]
        for number, width in enumerate(widths):
            layers, skipped = self.layers[last - number] + 1, widths[min(number + 1, last)]
            with self.parts.under(f"up_blocks.{number}"):
                if self.up_attends[number]:
                    for each in range(layers):
                        self._attend(f"attentions.{each}", width, self.depths[last - number])
                for each in range(layers):
                    inputs = (width if each else before) + (skipped if each == layers - 1 else width)
                    _resnet(self.parts, f"resnets.{each}", inputs, width, self.dims["time"])
                if number < last:
                    self.parts.conv("upsamplers.0.conv", width, width, (3, 3), bias=True)
            before = width

    def middle(self) -> None:
        width = self.widths[-1]
        with self.parts.under("mid_block"):
            self._attend("attentions.0", width, self.depths[-1])
            for each in range(2):
                _resnet(self.parts, f"resnets.{each}", width, width, self.dims["time"])


def build(read: Reader, dims: dict[str, int]) -> Parts:
    """The parameters. Raises UsageError for blocks and embeddings that Stable Diffusion's models do not have."""
    for key in _OTHER:
        if read.raw(key) is not None:
            raise UsageError(f"unsupported: {key} of {read.who} is set; `oomph trace` measures it from code.")
    for key in _SWITCHES:
        read.refuse(key)
    added = read.raw("addition_embed_type")
    if read.raw("mid_block_type") != "UNetMidBlock2DCrossAttn" or added not in (None, _ADDED):
        raise UsageError(
            f"unsupported: the middle or the embeddings of {read.who}; `oomph trace` measures it from code."
        )
    parts = Parts()
    hidden, time = dims["hidden"], dims["time"]
    parts.conv("conv_in", dims["channels"], hidden, (3, 3), bias=True)
    timestep(parts, "time_embedding", hidden, time)
    if added == _ADDED:
        timestep(parts, "add_embedding", read.number("projection_class_embeddings_input_dim"), time)
    blocks = _Blocks(parts, read, dims)
    blocks.down()
    blocks.up()
    blocks.middle()
    parts.norm("conv_norm_out", hidden, bias=True)
    parts.conv("conv_out", hidden, dims["out_channels"], (3, 3), bias=True)
    return parts
