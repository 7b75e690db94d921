"""From a job to what is played: which program and variant, its dimensions, and what each parameter is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from oomph.errors import UsageError
from oomph.hardware.gpus import Gpu
from oomph.job.families import Architecture, architecture, dimensions, major_of
from oomph.job.families.architecture import Parameter
from oomph.job.model import ITEM_BYTES, Job
from oomph.predict.compose import expert_parallel, experts, masks
from oomph.predict.compose.choice import classes, kind, task_of, task_of_class, window
from oomph.predict.engine.expert_parallel import spread
from oomph.predict.engine.play import Weight
from oomph.predict.engine.program import with_views
from oomph.predict.engine.sequence_parallel import Split, divide
from oomph.predict.frameworks.code import Code
from oomph.predict.programs.load import Program, ProgramFile, Variant, load
from oomph.predict.programs.stacks import stacked_families
from oomph.predict.sharding.sharded_qlora import is_sharded

#: What of a head turns with the position where the configuration does not say (their classes' configuration_*.py).
_ROTARY = {
    "phi": 0.5,
    "gpt_neox": 0.25,
    "stablelm": 0.25,
    "persimmon": 0.5,
    "nemotron": 0.5,
    "glm": 0.5,
    "glm4": 0.5,
}
#: Rates of dropout of heads for other tasks than the recorded ones.
_ON_HEADS = ("summary_", "classifier_", "seq_classif", "qa_")
#: What files of programs for GPUs before compute capability 8.0 begin with.
_OLDER = "transformers-sm75-"
#: Elements below which bitsandbytes and PEFT leave nothing: quantised are the weights of linear layers only.
_HALF = ("bf16", "fp16")
#: Whose context parallelism is torch.distributed.tensor.experimental's.
_RINGS = frozenset(("", "pytorch", "torchtitan", "accelerate", "transformers", "trl"))
_TRL = ("trl", "fms-acceleration")
_WITHOUT_AUTOCAST = ("torchtitan", "torchtune")


@cache
def _joined(variant: _ById) -> Program:
    return with_views(variant.variant.program())


@cache
def _divided(variant: _ById, split: Split) -> Program:
    return divide(variant.variant.program(), split)


#: Of how many pieces of the tokens the recorded losses of a framework are (litgpt: four of the finetune scripts' head,
#: eight of full.py's loss; torchtune: eight chunks).
_PIECES = {"litgpt": 8, "torchtune": 8}

#: Linear modules of other families, by what llama calls the one in their place.
_AS_LLAMA = {
    "query_key_value": ("q_proj", "k_proj", "v_proj"),
    "dense": ("o_proj",),
    "dense_h_to_4h": ("gate_proj", "up_proj"),
    "fc1": ("gate_proj", "up_proj"),
    "dense_4h_to_h": ("down_proj",),
    "fc2": ("down_proj",),
    "embed_out": ("lm_head",),
}


def _as_llama(targets: Iterable[str]) -> set[str]:
    """Adapted modules under llama's names, as a framework with one class for all families has them."""
    return {name for each in targets for name in _AS_LLAMA.get(each, (each,))}


@cache
def _spread(variant: _ById) -> Program:
    return spread(joined(variant.variant))


@dataclass(frozen=True)
class _ById:
    """A variant that compares by identity."""

    variant: Variant

    def __hash__(self) -> int:
        return id(self.variant)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.variant is self.variant


def joined(variant: Variant) -> Program:
    """A variant's program, put together once."""
    return _joined(_ById(variant))


@dataclass(frozen=True)
class Setup:
    """A job with one framework's code. All fields are values, so that pieces can be kept by it."""

    job: Job
    code: Code
    gpu: Gpu | None
    torch: tuple[int, int]
    #: Layers are played as they are, although they are compiled: the upper bound where Inductor's order decides.
    plain_layers: bool = False
    #: More rows come to this rank's experts than its tokens make (expert_parallel.py).
    crowded: bool = False
    #: LLM.int8() finds outliers: the upper bound where the data decide (engine/int8.py).
    outliers: bool = False

    @cached_property
    def architecture(self) -> Architecture:
        """The model's parameters."""
        return architecture(self.job.model, major_of(self.job.framework))

    @cached_property
    def dims(self) -> dict[str, int]:
        """Dimensions of the model and the batch on this rank. Context parallelism divides the sequence; tensor
        parallelism divides tensors (`program`). Where it has more ranks than there are key-value heads, each has a
        whole one."""
        job = self.job
        dims = dict(dimensions(job.model))
        dims["b"] = job.batch.micro
        dims["classes"] = classes(job.model)
        if "patches" in dims:
            # One side: `supported` refuses images that are not square.
            dims["side"] = dims["image"] // dims["patch"]
            dims["s"] = dims["patches"] + 1
        else:
            its = (job.batch.sequence or 1) // job.parallel.context
            # A loss that was recorded in pieces divides the tokens: up to a few more than there are.
            pieces = _PIECES.get(self.code.framework, 1)
            dims["s"] = -(-its // pieces) * pieces
        tensor = job.parallel.tensor
        if "kv_heads" in dims:
            dims["kv_heads"] = max(dims["kv_heads"], tensor)
        if "head_dim" in dims:
            dims["rotary"] = int(dims["head_dim"] * self._rotary_share())
        if dims.get("kv_heads"):
            dims["groups"] = dims["heads"] // dims["kv_heads"]
        if "moe_intermediate" in dims:
            dims["expert_intermediate"] = dims["moe_intermediate"]
        dims |= experts.router(job.model)
        if job.parallel.expert > 1:
            dims |= expert_parallel.rows(job, dims, crowded=self.crowded)
        if job.method.lora is not None:
            dims["rank"] = job.method.lora.rank
        return dims

    def _rotary_share(self) -> float:
        """The part of a head that is rotated (rotary_pct, partial_rotary_factor, or the class's own default)."""
        for key in ("rotary_pct", "partial_rotary_factor"):
            value = self.job.model.get(key)
            if isinstance(value, (int, float)):
                return float(value)
        return _ROTARY.get(self.job.model.family, 1.0)

    @property
    def drops(self) -> bool:
        """Whether dropout is on: a rate of the configuration is above 0, or it names none, and the class's default
        counts where a variant was recorded with it."""
        rates = [
            float(each.value)
            for each in self.job.model.config
            if "drop" in each.key
            and not each.key.startswith(_ON_HEADS)
            and isinstance(each.value, (int, float))
        ]
        return any(rate > 0 for rate in rates) if rates else True

    @cached_property
    def layers(self) -> int:
        """Blocks of the first stack."""
        return self.architecture.depth()

    @cached_property
    def file(self) -> ProgramFile:
        """The recorded programs of the family. Raises UsageError where the code has none for the family."""
        stem = self.code.program(self.job.model.family)
        if stem is None:
            raise UsageError(
                f"unsupported: {self.code.label} has no program for the family {self.job.model.family}; "
                "`oomph trace` runs the training script itself."
            )
        found = (load(stem.replace("transformers-", _OLDER, 1)) if self._lacks_kernel else None) or load(stem)
        if found is None:
            raise UsageError(
                f"unsupported: {self.job.model.family} under {self.code.label} has not been recorded; "
                "`oomph trace` runs the training script itself."
            )
        return found

    @property
    def _lacks_kernel(self) -> bool:
        """Whether grouped heads in half precision run as ordinary operators: the flash kernel needs compute capability
        8.0, and the memory-efficient one takes no grouped heads (sdp_utils.cpp)."""
        gpu, dims = self.gpu, self.dims
        grouped = dims.get("kv_heads", 0) != dims.get("heads", 0)
        old = gpu is not None and (0, 0) < tuple(gpu.capability) < (8, 0)
        asked = self.job.attention == "sdpa_math"
        sdpa = self.job.attention.startswith("sdpa")
        return grouped and (old or asked) and sdpa and self.precision != "fp32"

    @property
    def sharded_in_compute(self) -> bool:
        """FSDP and ZeRO hand the model parameters of the compute dtype."""
        return self.job.parallel.strategy.startswith(("fsdp", "zero"))

    @property
    def adapters_dtype(self) -> str:
        """The type that adapters compute in: theirs, or what FSDP and ZeRO cast wider parameters to."""
        lora = self.job.method.lora
        dtype = lora.dtype if lora is not None and lora.dtype in ("fp32", *_HALF) else "fp32"
        precision = self.job.precision
        if (
            self.sharded_in_compute
            and precision.weights not in _HALF
            and precision.compute in (*_HALF, "fp8")
        ):
            return dtype if dtype in _HALF else "bf16"
        return dtype

    @cached_property
    def precision(self) -> str:
        """The name of the variant's precision."""
        precision, quantization = self.job.precision, self.job.method.quantization
        # Nothing but autocast casts what prepare_model_for_kbit_training has made fp32 for LLM.int8()'s layers.
        if self.int8 and quantization is not None and quantization.prepared and not precision.autocast:
            return "fp32"
        low = precision.compute in (*_HALF, "fp8")
        weights_low = precision.weights in _HALF or (self.sharded_in_compute and low)
        # torchtitan and torchtune have no autocast where parameters are gathered in the compute dtype.
        if precision.autocast and low and not (weights_low and self.code.framework in _WITHOUT_AUTOCAST):
            return "bf16-autocast" if weights_low else "fp32-autocast"
        return "bf16" if weights_low else "fp32"

    @cached_property
    def attention(self) -> str:
        """The name of the variant's attention."""
        name = self.job.attention
        if name in ("flash_attention_2", "flash_attention_3"):
            return "flash_attention_2" if self.precision != "fp32" else "sdpa"
        if name == "eager":
            return "eager"
        # A class that does not offer sdpa (gemma2's scores are capped) is eager where nothing else is asked for.
        recorded = {each.attention for each in self.file.variants}
        return "eager" if name == "sdpa" and recorded == {"eager"} | (recorded - {"sdpa"}) else "sdpa"

    @cached_property
    def task(self) -> str:
        """What the model is trained for, as programs name it: by the class that config.json names, or the first of
        those that the family was recorded for. Raises UsageError for a class whose head was not recorded."""
        recorded = list(dict.fromkeys(task_of(each) for each in self.file.variants))
        task = task_of_class(self.job.model) or ("masked_lm" if "masked_lm" in recorded else recorded[0])
        if task not in recorded:
            raise UsageError(
                f"unsupported: {task.replace('_', ' ')} with {self.file.framework}'s {self.file.family} has not been "
                "recorded; `oomph trace` runs the training script itself."
            )
        return task

    @cached_property
    def variant(self) -> Variant:
        """The variant that fits best. Raises UsageError where none fits."""
        dims = self.dims
        if self.job.attention == "sdpa_math" and dims.get("kv_heads") == dims.get("heads"):
            raise UsageError(
                "unsupported: sdpa_math with heads that are not grouped has not been recorded; `oomph trace` runs the "
                "training script itself."
            )
        heads, kv_heads = dims.get("heads", 1), dims.get("kv_heads", dims.get("heads", 1))
        relation = "equal" if heads == kv_heads else "single" if kv_heads == 1 else "grouped"
        one = dims["b"] == 1
        found = [
            each
            for each in self.recorded
            if each.precision == self.precision
            and self._lora_fits(each)
            and task_of(each) == self.task
            and each.more.get("form", "") == experts.form(self.job.model)
        ]
        if not found:
            raise UsageError(
                f"unsupported: {self.file.framework}'s {self.file.family} in {self.precision} has not been recorded; "
                "`oomph trace` runs the training script itself."
            )

        def score(each: Variant) -> tuple[int, ...]:
            return (
                int(recorded_loss(each) == self.code.loss),
                int(each.attention == self.attention),
                int(not each.heads or each.heads == relation),
                int(bool(each.more.get("window")) == self.windowed),
                int(each.one == one),
                int(each.dropout == self.drops),
            )

        best = max(found, key=score)
        if best.attention != self.attention:
            raise UsageError(
                f"unsupported: {self.attention} attention of {self.file.framework}'s {self.file.family} has not "
                "been recorded; `oomph trace` runs the training script itself."
            )
        if self.windowed and not best.more.get("window"):
            raise UsageError(
                f"unsupported: sdpa of {self.file.framework}'s {self.file.family} with a sequence as long as its "
                f"attention's window ({window(self.job.model)}) has not been recorded; flash_attention_2 needs no mask."
            )
        return best

    @cached_property
    def recorded(self) -> Sequence[Variant]:
        """The variants to choose from: those with a mask where the batch is padded."""
        return masks.recorded(self.job, self.file, self._stem, self.attention, self.windowed)

    @property
    def without_mask(self) -> str:
        """What is said where batches may be padded and attention with a mask has not been recorded; else ""."""
        if not masks.may_be_padded(self.job) or self.job.model.family in stacked_families():
            return ""
        return masks.lacking(self.job, self.file, self._stem, self.attention)

    @property
    def _stem(self) -> str:
        return self.code.program(self.job.model.family) or ""

    @cached_property
    def windowed(self) -> bool:
        """Whether attention needs a mask for its window: sdpa does where the sequence is as long."""
        size = window(self.job.model) if self.file.framework == "transformers" else None
        return size is not None and self.attention == "sdpa" and self.dims["s"] >= size

    def kind(self, layer: int) -> str:
        """The section of the program that a layer runs."""
        return kind(self.job.model, layer, self.program.sections)

    @cached_property
    def program(self) -> Program:
        """The variant's program, as one tensor-parallel rank runs it."""
        if self.job.parallel.expert > 1:
            return _spread(_ById(self.variant))
        if self.split is None:
            return joined(self.variant)
        return _divided(_ById(self.variant), self.split)

    @property
    def ring(self) -> int:
        """Ranks among which torch's ring attention goes round (1: there is none)."""
        return self.job.parallel.context if rings(self.job) else 1

    @cached_property
    def split(self) -> Split | None:
        """How tensor parallelism divides the model; None without it."""
        parallel = self.job.parallel
        if parallel.tensor == 1:
            return None
        titan = parallel.sequence_parallel or self.code.framework in ("torchtitan", "torchtune")
        theirs = self.code.framework == "transformers"
        version = self.job.framework.version("transformers")
        current = theirs and (version is None or version >= (5,))
        tied = any(each.tied for each in self.architecture.outside)
        return Split(
            parallel.tensor,
            sequence=parallel.sequence_parallel,
            # transformers' plans gather the logits; since 5 they divide every embedding (distributed/mixin.py). Who is
            # not known to divide it has it whole.
            embedding=titan or current,
            head=titan or current or (theirs and not tied),
            parallel_loss=self.code.loss == "loss_parallel",
            sums=self.code.framework != "minimind",
            cuts_gradient=parallel.strategy.startswith("fsdp2"),
        )

    def _lora_fits(self, variant: Variant) -> bool:
        """Whether a variant's adapters are the job's: none where the engine adds them."""
        lora = self.job.method.lora
        recorded = variant.more.get("lora")
        if lora is None or self.code.lora == "peft":
            return recorded is None
        return recorded is not None and _as_llama(recorded.get("targets", ())) == _as_llama(lora.targets)

    @property
    def widens(self) -> bool:
        """Whether 4-bit layers hand on fp32 that they were given under autocast (widening.py)."""
        quantization = self.job.method.quantization
        return (
            quantization is not None
            and quantization.kind in ("nf4", "fp4", "int8")
            and self.precision.endswith("autocast")
            and self.code.lora == "peft"
        )

    @property
    def compiles_blocks(self) -> bool:
        """Whether torch.compile sees the layers. With PEFT's adapters they are played as they are (an assumption)."""
        return self.job.compile and not (self.job.method.lora is not None and self.code.lora == "peft")

    @property
    def compiles_layers(self) -> bool:
        """Whether layers are played compiled."""
        return self.compiles_blocks and not self.plain_layers

    @property
    def order_decides(self) -> bool:
        """Whether what a layer holds at its peak depends on Inductor's order: where it is recomputed in backward, and
        its tensors exist together. Under torchtitan the checkpoint is within the compiled block, and what it keeps is
        known."""
        outside = self.code.checkpoint_outside_compile
        return self.compiles_blocks and outside and self.job.checkpointing.mode != "none"

    @property
    def compiles_loss(self) -> bool:
        """Whether it sees output layer and loss together."""
        return self.compiles_blocks and self.code.compiled.endswith("and_loss")

    def adapts(self, parameter: Parameter) -> bool:
        """Whether a linear layer has adapters."""
        lora = self.job.method.lora
        if lora is None or parameter.kind != "linear":
            return False
        if "all-linear" in lora.targets:
            return parameter.layers is not None
        return parameter.module in lora.targets

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
            wide=self._prepared(name),
            int8=self.int8 if quantized else "",
            outliers=self.outliers,
        )

    @property
    def int8(self) -> str:
        """The dtype of the model around LLM.int8()'s weights; "" without them."""
        quantization = self.job.method.quantization
        if quantization is None or quantization.kind != "int8":
            return ""
        return "fp16" if self.job.precision.weights == "fp16" else "bf16"

    def _prepared(self, name: str) -> bool:
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
        item = 4.0 if self._prepared(parameter.relative) else ITEM_BYTES[self.job.precision.weights]
        return int(parameter.numel * item)


def _begins(name: str, prefix: str) -> bool:
    """Whether a name begins with a prefix; `layers.1` is not that of `layers.10`."""
    return name.startswith(prefix) and not (prefix[-1:].isdigit() and name[len(prefix) :][:1].isdigit())


def rings(job: Job) -> bool:
    """Whether context parallelism is torch's: accelerate's is under FSDP2, DeepSpeed's exchanges heads for tokens."""
    return job.framework.name.lower() in _RINGS and not job.parallel.strategy.startswith("zero")


def recorded_loss(variant: Variant) -> str:
    """The loss that a variant was recorded with; transformers' own where it says none."""
    return str(variant.more.get("loss", "eager_fp32"))


def packed_bytes(numel: int, kind: str) -> int:
    """Bytes of a quantised weight itself: half a byte (nf4, fp4, gptq4) or a byte (int8) per element."""
    return numel if kind == "int8" else numel // 2


def constant_bytes(numel: int, kind: str, double: bool, block: int, rows: int = 0) -> int:
    """Bytes of what is needed to read a quantised weight, which no strategy shards.

    nf4, fp4: one fp32 absmax per block; double: the absmax as one byte, with an fp32 per 256 of them and an fp32 offset
    (bitsandbytes functional.py, quantize_4bit with compress_statistics). int8: an fp32 per row. gptq4: int4 in groups
    (of 128, or of `block` where that is more) with fp16 scales, 4-bit zeros and a group index (0.5195 bytes per weight
    for square matrices with the weight itself: AutoGPTQ's qlinear).
    """
    if kind == "int8":
        return 4 * rows
    if kind == "gptq4":
        group = max(128, block)
        return numel // group * 2 + numel // (2 * group)
    blocks = -(-numel // block)
    return blocks + 4 * -(-blocks // 256) + 4 if double else 4 * blocks
