"""torch.compile and CUDA graphs."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument


class Compiling(Kind):
    """What is compiled, and how."""

    name = "compile"
    order = 32
    keys = (
        argument(
            "torch_compile\\w*",
            "compile\\w*",
            "use_compile",
            "dynamo_\\w+",
            "cuda_graph\\w*",
            "jit_mode_eval",
        ),
        r"environment\.(?:TORCHINDUCTOR_|TORCH_COMPILE|TORCHDYNAMO_|TRITON_|TORCH_LOGS|ACCELERATE_DYNAMO).*",
        r"versions\.triton",
    )

    def judge(self, change: Change, situation: Situation) -> Judged:
        """Fused kernels keep less, or other things; CUDA graphs have pools of their own."""
        del situation
        cache = "CACHE" in change.key.upper() or "LOGS" in change.key.upper()
        return Judged(
            "where compiled files are cached, and what is logged, takes no GPU memory"
            if cache
            else "compiled code decides itself what it keeps for backward, mostly less than eager code; mode "
            "reduce-overhead "
            "keeps CUDA graphs with pools that nothing else can use",
            Suspicion.HARMLESS if cache else Suspicion.LIKELY,
            phases=() if cache else ("forward", "backward"),
            parts=("forward.kept", "peak.reserved"),
            sources=() if cache else ("pytorch.org/docs/stable/torch.compiler_cudagraph_trees.html",),
            weight=6.0,
        )
