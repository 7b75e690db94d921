"""The model and the batch of a job: parameters and dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from oomph.hardware.gpus import Gpu
from oomph.job.families import Architecture, architecture, dimensions, major_of
from oomph.job.model import Job
from oomph.predict.compose import expert_parallel, experts
from oomph.predict.compose.choice import classes
from oomph.predict.frameworks.code import Code

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
#: Of how many pieces of the tokens the recorded losses of a framework are (litgpt: four of the finetune scripts' head,
#: eight of full.py's loss; torchtune: eight chunks).
_PIECES = {"litgpt": 8, "torchtune": 8}


@dataclass(frozen=True)
class Shape:
    """A job with one framework's code, and its dimensions. All fields are values, so that pieces can be kept by it."""

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
