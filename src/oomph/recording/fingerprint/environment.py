"""Environment variables that change what a job allocates, or say where it runs: by an allow-list."""

from __future__ import annotations

from collections.abc import Mapping

from oomph.recording.fingerprint.found import Found

#: Beginnings of names.
_PREFIXES = (
    "PYTORCH_", "CUDA_", "NCCL_", "OMP_", "TORCH_", "HF_", "TRANSFORMERS_", "ACCELERATE_", "FSDP_", "SLURM_JOB_",
    "CUBLAS", "CUDNN_", "NVIDIA_", "TORCHINDUCTOR_", "TRITON_", "XLA_", "BNB_", "DS_", "DEEPSPEED_", "MKL_", "KMP_",
    "MALLOC_", "GLOO_", "UCX_", "FI_", "RDMAV_", "NVTE_", "FLASH_ATTENTION", "XFORMERS_", "AXOLOTL_", "LIGER_",
    "UNSLOTH_", "ROCR_", "HIP_", "HSA_", "OOMPH_",
)  # fmt: skip
_NAMES = frozenset(
    {
        "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "NODE_RANK",
        "TOKENIZERS_PARALLELISM", "LD_PRELOAD", "PYTHONHASHSEED", "SLURM_NNODES", "SLURM_NTASKS", "SLURM_GPUS",
        "SLURM_GPUS_ON_NODE", "SLURM_NTASKS_PER_NODE", "SM_CURRENT_INSTANCE_TYPE", "CONDA_DEFAULT_ENV",
    }
)  # fmt: skip
#: Of what the prefixes let through: secrets, and what only says where oomph keeps its files.
_NEVER = ("TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "API_KEY")
_OWN = frozenset({"OOMPH_RUN_DIR", "OOMPH_INDEX"})


def environment(found: Found, variables: Mapping[str, str]) -> None:
    """`environment.*`."""
    for name, value in sorted(variables.items()):
        if name in _OWN or not (name in _NAMES or name.startswith(_PREFIXES)):
            continue
        if not any(word in name.upper() for word in _NEVER):
            found.put(f"environment.{name}", value)
