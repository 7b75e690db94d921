"""What each parameter of a job is: adapted, quantised, trained, and in how many bytes it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from oomph.job.families.architecture import Parameter
from oomph.job.model import ITEM_BYTES
from oomph.predict.compose import targets
from oomph.predict.compose.quantized_bytes import constant_bytes, packed_bytes
from oomph.predict.compose.setup_chosen import Chosen
from oomph.predict.engine.scope import Weight
from oomph.predict.sharding.sharded_qlora import is_sharded

_HALF = ("bf16", "fp16")
_TRL = ("trl", "fms-acceleration")


@dataclass(frozen=True)
class Parameters(Chosen):
    """A job with what its parameters are."""

    def adapts(self, parameter: Parameter) -> bool:
        """Whether a linear layer has adapters."""
        lora = self.job.method.lora
        if lora is None or parameter.kind != "linear":
            return False
        if "all-linear" in lora.targets:
            return parameter.layers is not None
        if parameter.module in lora.targets:
            return True
        where = [parameter.name] if parameter.layers is None else map(parameter.at, parameter.layers)
        return targets.names_all(lora.targets, [each.removesuffix(".weight") for each in where])

    @cached_property
    def _adapted(self) -> frozenset[str]:
        return frozenset(
            each.relative.removesuffix(".weight")
            for each in self.architecture.parameters
            if self.adapts(each)
        )

    def adapts_module(self, module: str) -> bool:
        """The same, by a module's name as a section names it."""
        return module in self._adapted

    @cached_property
    def _quantized(self) -> frozenset[str]:
        quantization = self.job.method.quantization
        if quantization is None:
            return frozenset()
        head = self.architecture.head
        with_head = quantization.head or self.code.quantizes_head
        return frozenset(
            each.relative
            for each in self.architecture.parameters
            if each.kind == "linear"
            and (each.layers is not None or (with_head and each.name.removesuffix(".weight") == head))
        )

    def quantizes_module(self, module: str) -> bool:
        """Whether a linear layer's weight is stored quantised."""
        return f"{module}.weight" in self._quantized

    def trains(self, name: str) -> bool:
        """Whether a parameter of the model itself trains, by its name in a section (in layers: in some of them)."""
        method = self.job.method
        if method.lora is not None:
            return any(part in name for part in method.lora.modules_to_save) or ".lora_" in name
        return not any(name.startswith(prefix) for prefix in method.frozen)

    def frozen_in(self, layer: int) -> frozenset[str]:
        """Parameters of one layer that do not train although those of others may, by their names in the layer."""
        prefixes = self.job.method.frozen
        if not prefixes or self.job.method.lora is not None:
            return frozenset()
        return frozenset(
            each.relative
            for each in self.architecture.parameters
            if each.layers is not None
            and any(_begins(each.name.replace("{}", str(layer)), prefix) for prefix in prefixes)
        )

    @cached_property
    def joins(self) -> bool:
        """FSDP1 with original parameters: what is frozen beside what trains is a view of a flat parameter that wants a
        gradient, and so has one too (torch/distributed/fsdp/_flat_param.py, _get_unflat_views)."""
        parallel = self.job.parallel
        original = self.code.use_orig_params if parallel.use_orig_params is None else parallel.use_orig_params
        units = self.code.units if parallel.units == "blocks" else parallel.units
        return (
            parallel.strategy.startswith("fsdp1")
            and original
            and not self.code.adapters_apart
            and units == "blocks"
            and (self.job.method.lora is not None or bool(self.job.method.frozen))
        )

    @cached_property
    def root_joins(self) -> bool:
        """The same of what is in no layer."""
        return self.joins and any(
            self.weight(each.relative).trainable for each in self.architecture.outside if not each.tied
        )

    def layer_trains(self, layer: int) -> bool:
        """Whether a layer has a parameter that trains."""
        if self.job.method.lora is not None or not self.job.method.frozen:
            return True
        frozen = self.frozen_in(layer)
        return any(
            each.layers is not None and each.relative not in frozen and self.trains(each.relative)
            for each in self.architecture.parameters
        )

    def weight(self, name: str) -> Weight:
        """What a parameter is, by its name in a section."""
        adapter = "lora_" in name.lower()
        quantized = name in self._quantized or (name not in self._names and self._quantizes_foreign(name))
        return Weight(
            trainable=adapter or (not quantized and self.trains(name)),
            quantized=quantized,
            dequantized=2 if self.code.dequantizes_twice else 1,
            adapter=adapter,
            wide=self.prepared(name),
            int8=self.int8 if quantized else "",
            outliers=self.outliers,
        )

    def prepared(self, name: str) -> bool:
        """Whether a weight that is not quantised was cast to fp32 before training (prepare_model_for_kbit_training).
        TRL casts embeddings and output layer back for bf16 (trainer/utils.py, peft_module_casting_to_bf16)."""
        quantization, precision = self.job.method.quantization, self.job.precision
        if quantization is None or not quantization.prepared or precision.weights not in _HALF:
            return False
        if is_sharded(self.job):
            return False
        if name in self._quantized or "lora_" in name.lower():
            return False
        back = self.job.framework.name.lower() in _TRL and precision.compute == "bf16"
        return not (back and any(each in name for each in ("lm_head", "embed_tokens", "wte", "wpe")))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(each.relative for each in self.architecture.parameters)

    def _quantizes_foreign(self, name: str) -> bool:
        """Whether a weight under another framework's name is quantised: all that matrix products use, but adapters and
        the output layer where it stays."""
        quantization = self.job.method.quantization
        if quantization is None or "lora_" in name.lower() or not name.endswith("weight"):
            return False
        if any(part in name for part in ("norm", "ln_", "wte", "embed")):
            return False
        head = name.startswith(("lm_head", "output"))
        return not head or quantization.head or self.code.quantizes_head

    @cached_property
    def constants(self) -> int:
        """Bytes of what quantised weights are read with, of the whole model."""
        quantization = self.job.method.quantization
        if quantization is None:
            return 0
        return sum(
            each.count
            * constant_bytes(
                each.numel, quantization.kind, quantization.double, quantization.block, each.shape[0]
            )
            for each in self.architecture.parameters
            if each.relative in self._quantized and not each.tied
        )

    def stored_bytes(self, parameter: Parameter) -> int:
        """Bytes of a parameter as it is resident before sharding."""
        method = self.job.method
        quantization = method.quantization
        if quantization is not None and parameter.relative in self._quantized:
            return packed_bytes(parameter.numel, quantization.kind)
        item = 4.0 if self.prepared(parameter.relative) else ITEM_BYTES[self.job.precision.weights]
        return int(parameter.numel * item)


def _begins(name: str, prefix: str) -> bool:
    """Whether a name begins with a prefix; `layers.1` is not that of `layers.10`."""
    return name.startswith(prefix) and not (prefix[-1:].isdigit() and name[len(prefix) :][:1].isdigit())
