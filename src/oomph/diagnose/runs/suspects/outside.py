"""Variables of CUDA, cuBLAS and NCCL: memory that PyTorch's allocator does not see."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind

_EFFECTS: tuple[tuple[str, str, Suspicion, float], ...] = (
    ("NCCL_(?:BUFFSIZE|NCHANNELS\\w*|M(?:IN|AX)_NCHANNELS|NTHREADS|M(?:IN|AX)_CTAS|CTA_POLICY|P2P_NET_CHUNKSIZE)",
     "NCCL's buffers are channels x peers x this size, outside PyTorch, for every communicator", Suspicion.LIKELY, 6.0),
    ("NCCL_(?:CUMEM_ENABLE|NVLS_ENABLE|NVLS_\\w+|GRAPH_REGISTER|LOCAL_REGISTER|SHM_DISABLE|P2P_\\w+|ALGO|PROTO)",
     "it decides which buffers NCCL makes, outside PyTorch", Suspicion.LIKELY, 5.0),
    ("NCCL_.*", "it decides how ranks talk, and hardly what NCCL's buffers take", Suspicion.UNLIKELY, 1.0),
    ("CUBLAS_WORKSPACE_CONFIG|CUBLASLT_WORKSPACE_SIZE|CUBLAS\\w*",
     "every stream that multiplies matrices has a workspace of this size, allocated through PyTorch",
     Suspicion.LIKELY, 4.0),
    ("CUDA_MODULE_LOADING", "EAGER loads every kernel into the context, outside PyTorch; LAZY those that are used",
     Suspicion.LIKELY, 6.0),
    ("TORCH_NCCL_AVOID_RECORD_STREAMS|TORCH_NCCL_.*",
     "it decides how long tensors live that collectives have used", Suspicion.POSSIBLE, 4.0),
    ("CUDA_LAUNCH_BLOCKING|CUDA_DEVICE_MAX_CONNECTIONS|CUDA_DEVICE_ORDER",
     "it changes when work runs, and so how long tensors of other streams are held", Suspicion.POSSIBLE, 3.0),
    ("CUDNN_.*", "cuDNN chooses other algorithms, with other workspaces", Suspicion.POSSIBLE, 3.0),
    ("BNB_.*", "bitsandbytes behaves differently", Suspicion.POSSIBLE, 3.0),
    ("PYTORCH_.*|TORCH_.*", "PyTorch behaves differently", Suspicion.POSSIBLE, 3.5),
    ("HF_.*|TRANSFORMERS_.*", "it changes what is loaded or from where, hardly what is allocated",
     Suspicion.UNLIKELY, 1.5),
    ("CUDA_.*|XLA_.*|HIP_.*|HSA_.*", "CUDA behaves differently", Suspicion.POSSIBLE, 3.0),
    ("AXOLOTL_.*|UNSLOTH_.*", "the framework behaves differently", Suspicion.POSSIBLE, 3.0),
)  # fmt: skip


class Outside(Kind):
    """Environment variables of libraries below PyTorch, and of PyTorch."""

    name = "environment"
    order = 60
    keys = tuple(rf"environment\.(?:{pattern})" for pattern, *_ in _EFFECTS)

    def judge(self, change: Change, situation: Situation) -> Judged:
        """The first entry of the table whose name it has."""
        del situation
        import re

        from oomph.diagnose.runs.suspects.base import plain

        name = plain(change.key).removeprefix("environment.")
        for pattern, effect, prior, weight in _EFFECTS:
            if re.fullmatch(pattern, name, re.IGNORECASE):
                return Judged(
                    effect,
                    prior,
                    parts=("outside",) if "NCCL" in name or "MODULE" in name else (),
                    weight=weight,
                )
        return Judged("it is read by a library below PyTorch", Suspicion.POSSIBLE, weight=2.0)


class HostSide(Kind):
    """What takes main memory only."""

    name = "host"
    order = 59
    keys = (
        r"environment\.(?:OMP_|MKL_|KMP_|MALLOC_|TOKENIZERS_|GLOO_|UCX_|FI_|RDMAV_).*",
        r"environment\.LD_PRELOAD",
        r"arguments\.(?:.+\.)?(?:dataloader_\w+|num_workers|pin_memory|preprocessing_num_workers|dataset_num_proc|num_proc)",
        r"machine\.(?:cpus|ram_bytes|system)",
    )

    def judge(self, change: Change, situation: Situation) -> Judged:
        """Not the GPU's."""
        del change, situation
        return Judged(
            "it costs main memory and time, not the GPU's memory",
            Suspicion.UNLIKELY,
            parts=("host.rss", "host.pinned"),
            weight=1.0,
        )
