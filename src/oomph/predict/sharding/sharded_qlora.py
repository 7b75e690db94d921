"""4-bit weights under FSDP: how they are stored, where they are loaded, and what is said of it.

Sources: transformers 4.48 modeling_utils.py (_load_state_dict_into_meta_model: each weight is quantised on the GPU and
goes to rank 0's host memory where fsdp_cpu_ram_efficient_loading is on); 5.24 quantizers/quantizer_bnb_4bit.py
(update_device_map: the GPU) and core_model_loading.py (nothing takes a quantised model back to the host); accelerate
1.15 utils/fsdp_utils.py (fsdp2_prepare_model: a model with Params4bit does not go to the meta device, and 4-bit weights
that are not stored in a floating type are not sharded); trl 0.13 sft_trainer.py (is_sharded_qlora:
prepare_model_for_kbit_training is left out, as FSDP flattens parameters of one type).
"""

from __future__ import annotations

from oomph.job.model import Job
from oomph.predict.frameworks.versions import below

_KINDS = ("nf4", "fp4")
#: Whose 4-bit weights are bitsandbytes' in models that transformers loads.
_LOADED_BY_TRANSFORMERS = ("transformers", "pytorch")


def is_sharded(job: Job) -> bool:
    """Whether FSDP shards bitsandbytes' 4-bit weights."""
    quantization = job.method.quantization
    return (
        quantization is not None and quantization.kind in _KINDS and job.parallel.strategy.startswith("fsdp")
    )


def loaded_whole(job: Job, framework: str) -> bool:
    """Whether each GPU holds all quantised weights before they are sharded. `framework`: whose code runs."""
    if not is_sharded(job) or framework not in _LOADED_BY_TRANSFORMERS:
        return False
    return job.parallel.strategy.startswith("fsdp2") or below(job.framework, "transformers", 5, 0) is False


def assumptions(job: Job, framework: str) -> tuple[str, ...]:
    """What is taken for granted. `framework`: whose code runs."""
    if not is_sharded(job) or framework not in _LOADED_BY_TRANSFORMERS:
        return ()
    stored = (
        "4-bit weights are taken to be stored in the type of the other weights (bnb_4bit_quant_storage), or FSDP does "
        "not shard them, and nothing is cast to fp32 (prepare_model_for_kbit_training is left out)."
    )
    if loaded_whole(job, framework):
        code = "accelerate's FSDP2" if job.parallel.strategy.startswith("fsdp2") else "transformers 5"
        return stored, f"Each GPU holds all of them before they are sharded, as {code} loads them."
    return stored, (
        "They come to the GPU unit by unit (fsdp_cpu_ram_efficient_loading); without it, and with transformers 5, each "
        "GPU holds all of them before they are sharded."
    )
