"""QLoRA: frozen weights in 4 bits, and adapters that train."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from oomph.job.model import Job, Lora, Method, Quantization
from oomph.remedy.changes.base import EVERYWHERE, Change
from oomph.remedy.changes.written import ZERO, written

_QUANTIZED = (
    "from transformers import BitsAndBytesConfig\n"
    "from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training\n\n"
    'bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,\n'
    "                         bnb_4bit_compute_dtype=torch.{dtype})\n"
    "model = AutoModelForCausalLM.from_pretrained(..., quantization_config=bnb)\n"
    "model = prepare_model_for_kbit_training(model)\n"
)
_LINES = {
    "transformers": _QUANTIZED
    + 'model = get_peft_model(model, LoraConfig(r={rank}, lora_alpha={alpha}, target_modules="all-linear"))',
    "trl": _QUANTIZED
    + 'SFTTrainer(..., peft_config=LoraConfig(r={rank}, lora_alpha={alpha}, target_modules="all-linear"))',
    "axolotl": "adapter: qlora\nload_in_4bit: true\nlora_r: {rank}\nlora_alpha: {alpha}\nlora_target_linear: true",
    "llamafactory": "finetuning_type: lora\nquantization_bit: 4\nlora_rank: {rank}\nlora_target: all",
    "torchtune": "model:\n  _component_: torchtune.models.<family>.qlora_<model>\n"
    "  lora_attn_modules: [q_proj, k_proj, v_proj, output_proj]\n  apply_lora_to_mlp: True\n  lora_rank: {rank}\n"
    "  lora_alpha: {alpha}",
    "litgpt": "litgpt finetune_lora ... --quantize bnb.nf4-dq --precision bf16-true --lora_r {rank} "
    "--lora_alpha {alpha}",
    "": _QUANTIZED
    + 'model = get_peft_model(model, LoraConfig(r={rank}, lora_alpha={alpha}, target_modules="all-linear"))',
}


@dataclass(frozen=True)
class Qlora(Change):
    """nf4 with double quantisation; adapters of `rank` on all linear modules, or those that the job has."""

    rank: int = 16

    code = "qlora"
    axis = "method"
    numerics = "changed"
    phases = EVERYWHERE
    needs = "method"

    @property
    def title(self) -> str:
        """With its value."""
        return "QLoRA: the frozen weights in 4 bits (nf4, double quantisation)"

    def applies(self, job: Job) -> str | None:
        """Where weights are not quantised, and nothing shards them in pieces."""
        if job.method.quantization is not None:
            return f"Weights are {job.method.quantization.kind} already."
        if job.parallel.strategy in ZERO:
            return "4-bit weights do not go with ZeRO-3, and adapters leave ZeRO-1 and 2 nothing to shard."
        if job.parallel.tensor > 1:
            return "bitsandbytes' 4-bit weights do not go with tensor parallelism."
        return None

    def apply(self, job: Job) -> Job:
        """Keeps adapters that are there. prepare_model_for_kbit_training casts the rest to fp32."""
        lora = job.method.lora or Lora(rank=self.rank, targets=("all-linear",))
        quantization = Quantization(kind="nf4", double=True, prepared=True)
        compute = job.precision.compute
        half = compute if compute in ("bf16", "fp16") else "bf16"
        precision = replace(job.precision, weights=half, compute=half, master=False, grads=None)
        method = Method(name="qlora", lora=lora, quantization=quantization)
        return replace(job, method=method, precision=precision)

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        dtype = {"fp16": "float16"}.get(self.apply(job).precision.compute, "bfloat16")
        return written(job, _LINES, rank=self.rank, alpha=2 * self.rank, dtype=dtype)

    def verify(self, job: Job) -> str:
        """The footprint."""
        del job
        return "model.get_memory_footprint() is about 0.52 bytes per weight of the linear modules; evaluate as before."


def options(job: Job) -> tuple[Change, ...]:
    """One."""
    del job
    return (Qlora(),)
