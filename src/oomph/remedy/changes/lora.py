"""LoRA: frozen weights, and adapters that train."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job, Lora, Method
from oomph.phases import Phase
from oomph.remedy.changes.base import Change
from oomph.remedy.changes.written import written

_LINES = {
    "transformers": "from peft import LoraConfig, get_peft_model\n\n"
    'model = get_peft_model(model, LoraConfig(r={rank}, lora_alpha={alpha}, target_modules="all-linear"))',
    "trl": 'SFTTrainer(..., peft_config=LoraConfig(r={rank}, lora_alpha={alpha}, target_modules="all-linear"))',
    "axolotl": "adapter: lora\nlora_r: {rank}\nlora_alpha: {alpha}\nlora_target_linear: true",
    "llamafactory": "finetuning_type: lora\nlora_rank: {rank}\nlora_target: all",
    "torchtune": "model:\n  _component_: torchtune.models.<family>.lora_<model>\n"
    "  lora_attn_modules: [q_proj, k_proj, v_proj, output_proj]\n  apply_lora_to_mlp: True\n  lora_rank: {rank}\n"
    "  lora_alpha: {alpha}",
    "litgpt": "litgpt finetune_lora ... --lora_r {rank} --lora_alpha {alpha} --lora_query true --lora_key true "
    "--lora_value true --lora_projection true --lora_mlp true",
    "": "from peft import LoraConfig, get_peft_model\n\n"
    'model = get_peft_model(model, LoraConfig(r={rank}, lora_alpha={alpha}, target_modules="all-linear"))',
}


@dataclass(frozen=True)
class LoraAdapters(Change):
    """Adapters of `rank` on all linear modules."""

    rank: int = 16

    code = "lora"
    axis = "method"
    numerics = "changed"
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.SAVE, Phase.INIT})
    needs = "method"

    @property
    def title(self) -> str:
        """With its value."""
        return f"LoRA adapters of rank {self.rank} instead of all weights"

    def applies(self, job: Job) -> str | None:
        """Where all weights train."""
        if job.method.name != "full":
            return f"The method is {job.method.name} already."
        return None

    def apply(self, job: Job) -> Job:
        """fp32 adapters; the frozen base in the compute type (nothing trains it)."""
        lora = Lora(rank=self.rank, targets=("all-linear",))
        compute = job.precision.compute
        half = compute if compute in ("bf16", "fp16") else job.precision.weights
        precision = replace(job.precision, weights=half, master=False, grads=None)
        return replace(job, method=Method(name="lora", lora=lora), precision=precision)

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        return written(job, _LINES, rank=self.rank, alpha=2 * self.rank)

    def verify(self, job: Job) -> str:
        """The count."""
        del job
        return (
            "model.print_trainable_parameters() shows about 1 %; the learning rate is some ten times higher."
        )


def options(job: Job) -> tuple[Change, ...]:
    """One rank: the frozen base decides the memory."""
    del job
    return (LoraAdapters(),)
