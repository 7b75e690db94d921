"""Which recorded program runs a job, and how it is divided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from oomph.errors import UsageError
from oomph.job.denoising import DENOISERS
from oomph.job.model import Job
from oomph.predict.compose import experts, masks
from oomph.predict.compose.choice import kind, task_of, task_of_class, window
from oomph.predict.compose.joined import divided, joined, with_spread_experts
from oomph.predict.compose.setup_shape import Shape
from oomph.predict.engine.sequence_parallel import Split
from oomph.predict.programs.load import Program, ProgramFile, Variant, load
from oomph.predict.programs.stacks import stacked_families
from oomph.predict.sharding.sharded_qlora import is_sharded

#: What files of programs for GPUs before compute capability 8.0 begin with.
_OLDER = "transformers-sm75-"
_HALF = ("bf16", "fp16")
#: Whose context parallelism is torch.distributed.tensor.experimental's.
_RINGS = frozenset(("", "pytorch", "torchtitan", "accelerate", "transformers", "trl"))
_WITHOUT_AUTOCAST = ("torchtitan", "torchtune")
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


@dataclass(frozen=True)
class Chosen(Shape):
    """A job with the recorded program that is played."""

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
        # Nothing but autocast casts what prepare_model_for_kbit_training has made fp32: quantised layers give the type
        # that they were given (bitsandbytes/nn/modules.py, Linear4bit: inp_dtype).
        prepared = quantization is not None and quantization.prepared and not precision.autocast
        # Denoisers have next to nothing that is not quantised (denoise_setup.py follows it).
        follows = self.job.model.family in DENOISERS or is_sharded(self.job)
        if prepared and (self.int8 or not follows):
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
            return with_spread_experts(self.variant)
        if self.split is None:
            return joined(self.variant)
        return divided(self.variant, self.split)

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
    def int8(self) -> str:
        """The dtype of the model around LLM.int8()'s weights; "" without them."""
        quantization = self.job.method.quantization
        if quantization is None or quantization.kind != "int8":
            return ""
        return "fp16" if self.job.precision.weights == "fp16" else "bf16"


def _as_llama(targets: Iterable[str]) -> set[str]:
    """Adapted modules under llama's names, as a framework with one class for all families has them."""
    return {name for each in targets for name in _AS_LLAMA.get(each, (each,))}


def rings(job: Job) -> bool:
    """Whether context parallelism is torch's: accelerate's is under FSDP2, DeepSpeed's exchanges heads for tokens."""
    return job.framework.name.lower() in _RINGS and not job.parallel.strategy.startswith("zero")


def recorded_loss(variant: Variant) -> str:
    """The loss that a variant was recorded with; transformers' own where it says none."""
    return str(variant.more.get("loss", "eager_fp32"))
