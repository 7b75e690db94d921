"""Models with several stacks of layers: which program runs, its dimensions, and what each parameter is by its whole
name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from oomph.errors import UsageError
from oomph.job.families import Architecture
from oomph.job.families.architecture import Parameter
from oomph.predict.compose import masks, stacks_dims, targets
from oomph.predict.compose.quantized_bytes import constant_bytes, packed_bytes
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.units import adapters_of, unit_parameter
from oomph.predict.engine.scope import Weight
from oomph.predict.programs.stacks import StackedFile, StackedVariant, load_stacks, stacked_families
from oomph.predict.sharding.base import Unit, UnitParameter

#: Modules that make patches of images hidden states.
_PATCHES = (".patch_embedding.weight", ".patch_embed.proj.weight")


def is_stacked(family: str) -> bool:
    """Whether the family's programs are of several stacks."""
    return family in stacked_families()


@dataclass(frozen=True)
class Stacks:
    """A job's setup as a model with several stacks."""

    setup: Setup

    @cached_property
    def file(self) -> StackedFile:
        """The family's programs. Raises UsageError where the job's code has classes of its own."""
        code, family = self.setup.code, self.setup.job.model.family
        stem = code.program(family)
        found = load_stacks(f"transformers-{family}") if stem is not None and "transformers" in stem else None
        if found is None:
            raise UsageError(
                f"unsupported: {family} under {code.label} has not been recorded; `oomph trace` runs the training "
                "script itself."
            )
        return found

    @cached_property
    def architecture(self) -> Architecture:
        """The model's parameters."""
        return self.setup.architecture

    @cached_property
    def dims(self) -> dict[str, int]:
        """Dimensions of the model and the batch."""
        return stacks_dims.dims_of(self.setup)

    def depth(self, stack: str) -> int:
        """Layers of a stack. Raises UsageError for so few that the recorded layers do not stand for them."""
        found = self.architecture.depth(stack)
        if found < 3:
            raise UsageError(
                f"unsupported: {stack} of {found} layers; three at least are played (`oomph trace` runs the training "
                "script itself)."
            )
        return found

    @cached_property
    def variant(self) -> StackedVariant:
        """The variant that fits. Raises UsageError where none does."""
        setup, dims = self.setup, self.dims
        task, form = stacks_dims.task_of_job(setup.job), stacks_dims.form_of(setup)
        heads, kv_heads = dims.get("heads", 1), dims.get("kv_heads", 1)
        wanted: list[tuple[str, object, str]] = [
            ("task", task, task.replace("_", " ")),
            ("form", form, f"its form {form!r}"),
            ("precision", setup.precision, setup.precision),
            ("attention", stacks_dims.attention_of(self), f"{setup.job.attention} attention"),
            ("heads", "equal" if heads == kv_heads else "grouped", "heads that share keys and values"),
        ]
        found = self.file.variants
        for name, value, words in wanted:
            found = tuple(each for each in found if getattr(each, name) == value)
            if not found:
                raise UsageError(
                    f"unsupported: {words} of {self.file.framework}'s {self.file.family} has not been recorded; "
                    "`oomph trace` runs the training script itself."
                )
        one, padded = dims["b"] == 1, masks.has_padding(setup.job)
        return max(
            found,
            key=lambda each: (each.padded == padded, each.dropout == setup.drops, each.one == one),
        )

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """Every parameter by its whole name."""
        return dict(self.architecture.named())

    @cached_property
    def ties(self) -> dict[str, str]:
        """Parameters that are another one."""
        return {name: each.tied for name, each in self.parameters.items() if each.tied}

    def name(self, name: str) -> str:
        """The parameter that holds the tensor."""
        return self.ties.get(name, name)

    def embeds(self, name: str) -> bool:
        """Whether a parameter is the table of the tokens' embeddings, or what makes patches of images hidden states."""
        return name == f"{self.architecture.embedding}.weight" or name.endswith(_PATCHES)

    @cached_property
    def _unit_of(self) -> dict[str, int]:
        found, unit = {}, 0
        for stack in self.variant.stacks:
            for layer in range(self.depth(stack)):
                unit += 1
                found[f"{stack}.{layer}"] = unit
        return found

    def unit(self, stack: str, layer: int) -> int:
        """The number of a layer's unit; those outside of layers are the root's, 0."""
        return self._unit_of[f"{stack}.{layer}"]

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The root and a unit for each layer, in the order of forward."""
        outside = [each for each in self.architecture.parameters if each.stack not in self.variant.stacks]
        root = [
            made
            for each in outside
            for number in (each.layers or (None,))
            for made in self._made(each, each.name if number is None else each.at(number))
        ]
        layers = [
            Unit(
                f"{stack} {layer}",
                tuple(
                    made
                    for each in self.architecture.layer(layer, stack)
                    for made in self._made(each, each.at(layer))
                ),
            )
            for stack in self.variant.stacks
            for layer in range(self.depth(stack))
        ]
        if self.merged:
            return (Unit("root", (*root, *(made for each in layers for made in each.parameters))),)
        return (Unit("root", tuple(root)), *layers)

    @cached_property
    def merged(self) -> bool:
        """Whether all is one unit."""
        wanted = self.setup.job.parallel.units
        return (self.setup.code.units if wanted == "blocks" else wanted) == "root"

    def _made(self, parameter: Parameter, name: str) -> list[UnitParameter]:
        """The parameter and its adapters, under whole names."""
        if parameter.tied:
            return []
        weight, quantization = self.weight(name), self.setup.job.method.quantization
        made = replace(unit_parameter(self.setup, parameter), name=name, trainable=weight.trainable)
        if weight.quantized and quantization is not None and parameter.layers is None:
            # bitsandbytes takes linear layers wherever they are.
            packed = packed_bytes(parameter.numel, quantization.kind)
            constants = constant_bytes(
                parameter.numel, quantization.kind, quantization.double, quantization.block
            )
            made = replace(made, stored_bytes=packed + constants)
        found = [made]
        if self.adapts(name.removesuffix(".weight")):
            start = len(parameter.relative.removesuffix(".weight"))
            module = name.removesuffix(".weight")
            found += [
                replace(each, name=f"{module}{each.name[start:]}")
                for each in adapters_of(self.setup, parameter)
            ]
        return found

    def adapts(self, module: str) -> bool:
        """Whether a linear layer has adapters, by its whole name."""
        method, parameter = self.setup.job.method, self.parameters.get(f"{module}.weight")
        lora = method.lora
        if lora is None or parameter is None or parameter.kind != "linear":
            return False
        if module.startswith(method.frozen):
            return False
        if "all-linear" in lora.targets:
            return module != self.architecture.head
        return targets.names(lora.targets, module)

    def quantizes(self, module: str) -> bool:
        """Whether a linear layer's weight is stored quantised."""
        return self._quantized(f"{module}.weight")

    def _quantized(self, name: str) -> bool:
        quantization, parameter = self.setup.job.method.quantization, self.parameters.get(name)
        if quantization is None or parameter is None or parameter.kind != "linear":
            return False
        return quantization.head or name.removesuffix(".weight") != self.architecture.head

    def weight(self, name: str) -> Weight:
        """What a parameter is, by its whole name."""
        adapter = "lora_" in name
        quantized = self._quantized(name)
        setup = self.setup
        return Weight(
            trainable=adapter or (not quantized and setup.trains(name)),
            quantized=quantized,
            dequantized=2 if setup.code.dequantizes_twice else 1,
            adapter=adapter,
            wide=not quantized and not adapter and setup.prepared(name),
        )
