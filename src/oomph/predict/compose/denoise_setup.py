"""From a job to a denoiser's parts: which recorded way it runs, its dimensions, and what each parameter is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from oomph.errors import UsageError
from oomph.job.denoising import DIT, FLUX, SD3, UNET
from oomph.job.families import dimensions
from oomph.job.families.architecture import Parameter
from oomph.job.families.build import Reader
from oomph.job.families.unet import same as same_unet
from oomph.job.model import ITEM_BYTES, Model
from oomph.predict.compose.quantized_bytes import constant_bytes, packed_bytes
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.units import Units
from oomph.predict.engine.scope import Weight
from oomph.predict.programs.parts import DenoiserFile, DenoiserVariant, Entry, load_parts
from oomph.predict.sharding.base import Unit, UnitParameter

#: The files of each family; of UNets there is one for each configuration that was recorded.
FILES = {
    FLUX: ("diffusers-flux",),
    SD3: ("diffusers-sd3",),
    DIT: ("diffusers-dit",),
    UNET: ("diffusers-unet-sd15", "diffusers-unet-sd21", "diffusers-unet-sdxl"),
}
#: What a transformer was recorded with and is no dimension of its program, its class's defaults;
#: and the channels that go out, of FLUX as many as came in.
_OUT = {SD3: 16, DIT: 8}
_FIXED: dict[str, dict[str, object]] = {
    FLUX: {"patch_size": 1},
    SD3: {"patch_size": 2, "in_channels": 16},
    DIT: {
        "patch_size": 2,
        "in_channels": 4,
        "attention_bias": True,
        "dropout": 0.0,
        "activation_fn": "gelu-approximate",
        "norm_type": "ada_norm_zero",
        "norm_elementwise_affine": False,
        "upcast_attention": False,
    },
}
_HALF = ("bf16", "fp16")
#: Attention that programs, recorded with sdpa, are played with.
ATTENTION = ("sdpa", "sdpa_flash", "sdpa_efficient")
#: Pixels of a latent's side; latents of the side of a transformer's tokens (pipeline_flux.py: _pack_latents; patches
#: of SD3 and DiT), and of what sizes of UNets are recorded in.
_LATENT, _PACKED, _GRAIN = 8, 2, 8
#: enable_gradient_checkpointing leaves it out (unet_2d_blocks.py, UNetMidBlock2DCrossAttn).
_NEVER = "mid_block.resnets.0"


def is_denoiser(family: str) -> bool:
    """Whether models of this family are denoisers with recorded programs."""
    return family in FILES


@dataclass(frozen=True)
class Denoising:
    """A job whose model is a denoiser."""

    setup: Setup

    @cached_property
    def file(self) -> DenoiserFile:
        """The recorded programs. Raises UsageError for a configuration that was not recorded."""
        model = self.setup.job.model
        files = [load_parts(each) for each in FILES[model.family]]
        for each in files:
            config = {} if each is None else each.variants[0].more.get("config", {})
            if each is not None and (
                same_unet(model, config) if model.family == UNET else _is_recorded(model)
            ):
                return each
        which = " (Stable Diffusion 1.5, 2.1 and XL are)" if model.family == UNET else ""
        raise UsageError(
            f"unsupported: a {model.family} of this configuration has not been recorded{which}; `oomph trace` runs the "
            "training script itself."
        )

    @cached_property
    def dims(self) -> dict[str, int]:
        """What sizes are made of."""
        job = self.setup.job
        dims = dict(dimensions(job.model))
        dims["b"], dims["s"] = job.batch.micro, job.batch.sequence or 0
        if job.model.family == UNET:
            return {**dims, "side": (job.batch.image_size or 0) // (_LATENT * _GRAIN)}
        side = (job.batch.image_size or 0) // (_LATENT * _PACKED)
        dims["rows"] = dims["columns"] = side
        dims["n"] = side * side
        if job.model.family != FLUX:
            dims["side"] = side
            return dims
        axes = Reader(job.model, {"axes_dims_rope": (16, 56, 56)}).numbers("axes_dims_rope")
        if len(axes) != 3 or axes[1] != axes[2] or sum(axes) != dims["head_dim"]:
            raise UsageError(f"unsupported: axes_dims_rope {axes} of {job.model.name or 'the model'}.")
        dims["rope"], dims["rope_wide"] = axes[:2]
        return dims

    @cached_property
    def variant(self) -> DenoiserVariant:
        """The recorded way that the job runs. Raises UsageError where none was recorded."""
        job, setup = self.setup.job, self.setup
        kind = self._kind
        found = [
            each
            for each in self.file.variants
            if each.precision == setup.precision and all(each.more.get(key) == kind[key] for key in kind)
        ]
        if not found or job.attention not in ATTENTION:
            raise UsageError(
                f"unsupported: {self.file.family} in {setup.precision} with {job.attention} attention has not been "
                "recorded; `oomph trace` runs the training script itself."
            )
        one = [each for each in found if each.one == (job.batch.micro == 1)]
        return (one or found)[0]

    @property
    def _kind(self) -> dict[str, object]:
        """What a variant is chosen by beside precision and batch."""
        model = self.setup.job.model
        if model.family == FLUX:
            return {"guidance": Reader(model).switch("guidance_embeds")}
        if model.family == SD3:
            return {"qk_norm": Reader(model).raw("qk_norm"), "twice": self.dims["twice"] > 0}
        return {}

    def numbers(self, entry: Entry) -> range:
        """The modules of a stack that an entry of the order stands for: of SD3's some attend twice, and the last makes
        no text."""
        count = self.counts[entry.stack]
        if self.setup.job.model.family != SD3:
            return range(count)
        twice, last = self.dims["twice"], count - 1
        which = entry.name.removeprefix(entry.stack).strip()
        return {"twice": range(twice), "": range(twice, last), "last": range(last, count)}[which]

    @cached_property
    def counts(self) -> dict[str, int]:
        """Modules of each stack."""
        return {stack: self.setup.architecture.depth(stack) for stack in self.setup.architecture.stacks}

    def checkpoints(self, module: str) -> bool:
        """Whether a module is checkpointed: enable_gradient_checkpointing is for all but one."""
        return self.setup.job.checkpointing.mode == "full" and module != _NEVER

    @property
    def widens(self) -> bool:
        """Whether 4-bit layers hand on fp32 that they were given under autocast (widening.py)."""
        return self.setup.widens

    @property
    def autocast(self) -> bool:
        """Whether it runs under autocast."""
        return self.setup.precision.endswith("autocast")

    # -- parameters -------------------------------------------------------------------------------------------------

    @cached_property
    def named(self) -> dict[str, Parameter]:
        """Every parameter by its whole name."""
        return dict(self.setup.architecture.named())

    def adapts_module(self, module: str) -> bool:
        """Whether a linear module has adapters, by its whole name: as PEFT matches targets (a module's name, or what it
        ends with after a dot)."""
        lora = self.setup.job.method.lora
        known = self.named.get(f"{module}.weight")
        if lora is None or known is None or known.kind != "linear":
            return False
        if "all-linear" in lora.targets:
            return True
        return any(module == target or module.endswith(f".{target}") for target in lora.targets)

    def quantizes_module(self, module: str) -> bool:
        """Whether a linear module's weight is stored quantised: all of them are (diffusers' bitsandbytes quantizer
        converts every nn.Linear where no module is named to be left out)."""
        known = self.named.get(f"{module}.weight")
        return self.setup.job.method.quantization is not None and known is not None and known.kind == "linear"

    def weight(self, name: str) -> Weight:
        """What a parameter is."""
        adapter = ".lora_" in name
        quantized = not adapter and self.quantizes_module(name.removesuffix(".weight"))
        trains = adapter or (not quantized and self.setup.trains(name))
        return Weight(trainable=trains, quantized=quantized, adapter=adapter)

    @cached_property
    def constants(self) -> int:
        """Bytes of what quantised weights are read with."""
        quantization = self.setup.job.method.quantization
        if quantization is None:
            return 0
        kind, double, block = quantization.kind, quantization.double, quantization.block
        return sum(
            constant_bytes(each.numel, kind, double, block)
            for name, each in self.named.items()
            if self.quantizes_module(name.removesuffix(".weight"))
        )

    @property
    def buffers(self) -> int:
        """Bytes of positions that are no parameters (embeddings.py, PatchEmbed), of the weights' type."""
        dims, family = self.dims, self.setup.job.model.family
        count = {SD3: dims.get("positions", 0) ** 2, DIT: dims.get("patches", 0)}.get(family, 0)
        return int(count * dims["hidden"] * ITEM_BYTES[self.setup.job.precision.weights])

    @cached_property
    def units(self) -> Units:
        """The root, then each module of a stack."""
        groups: dict[str, list[UnitParameter]] = {"": []}
        for stack, count in self.counts.items():
            groups.update({f"{stack}.{number}": [] for number in range(count)})
        for name, each in self.named.items():
            module = _module_of(name, each)
            groups[module] += self._unit_parameters(name, each)
        units = tuple(Unit(name or "root", tuple(found)) for name, found in groups.items())
        return Units(units, tuple(range(1, len(units))), 0, 0)

    @cached_property
    def unit_numbers(self) -> dict[str, int]:
        """The unit of each module of a stack."""
        return {unit.name: number for number, unit in enumerate(self.units.units) if number}

    def _unit_parameters(self, name: str, parameter: Parameter) -> list[UnitParameter]:
        precision, lora = self.setup.job.precision, self.setup.job.method.lora
        weight, item = self.weight(name), ITEM_BYTES[precision.weights]
        stored = self._stored(parameter) if weight.quantized else None
        if self._prepared and not weight.quantized and precision.weights in _HALF:
            item = 4.0
        grads = ITEM_BYTES[precision.grads] if precision.grads else item
        compute = min(item, ITEM_BYTES[precision.compute]) if self.setup.sharded_in_compute else item
        found = [
            UnitParameter(
                name, parameter.numel, weight.trainable, item, compute, grads, stored, parameter.shape
            )
        ]
        module = name.removesuffix(".weight")
        if lora is not None and name != module and self.adapts_module(module):
            size = ITEM_BYTES[lora.dtype]
            outputs, inputs = parameter.shape
            found += [
                UnitParameter(f"{module}.lora_{letter}", a * b, True, size, size, size, None, (a, b))
                for letter, a, b in (("A", lora.rank, inputs), ("B", outputs, lora.rank))
            ]
        return found

    def _stored(self, parameter: Parameter) -> int:
        quantization = self.setup.job.method.quantization
        assert quantization is not None
        return packed_bytes(parameter.numel, quantization.kind)

    @property
    def _prepared(self) -> bool:
        quantization = self.setup.job.method.quantization
        return quantization is not None and quantization.prepared


def _is_recorded(model: Model) -> bool:
    """Whether a transformer runs what its program does."""
    fixed = _FIXED[model.family]
    read, dims = Reader(model, fixed), dimensions(model)
    same = dims["out_channels"] == _OUT.get(model.family, dims["channels"])
    # of SD3's blocks, one is neither of the first ones nor the last
    fewest = dims["twice"] + 2 if model.family == SD3 else 1
    enough = dims["layers"] >= fewest and dims.get("single_layers", 1) > 0
    # others are padded, or run as ordinary operators (sdp_utils.cpp)
    flash = dims["head_dim"] % 8 == 0 and dims["head_dim"] <= 256
    return same and enough and flash and all(read.raw(key) == fixed[key] for key in fixed)


def _module_of(name: str, parameter: Parameter) -> str:
    """The module of a stack that a parameter is in; "" outside of stacks."""
    if parameter.layers is None:
        return ""
    number = name.removeprefix(f"{parameter.stack}.").partition(".")[0]
    return f"{parameter.stack}.{number}"
