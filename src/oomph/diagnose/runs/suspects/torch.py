"""Versions of PyTorch. Sources: PyTorch's source at the versions named, its documentation and its issues."""

from __future__ import annotations

from oomph.diagnose.runs.model import Suspicion
from oomph.diagnose.runs.suspects.version_kind import Known, VersionKind


class Torch(VersionKind):
    """PyTorch."""

    name = "torch version"
    order = 40
    libraries = ("torch", "torch_git")
    known = (
        Known(
            "torch", "2.0",
            "zero_grad() sets gradients to None (they are not alive during the next forward), and optimizers "
            "are foreach by "
            "default (temporaries of about the parameters' size in the step)",
            "torch/optim/optimizer.py (set_to_none=True; foreach: ~ sizeof(params) more peak memory)",
            phases=("forward", "optimizer"),
        ),
        Known(
            "torch", "2.9",
            "nn.RMSNorm is one fused operator, which keeps less than the single ones did",
            "docs/frameworks.md (what the recording rests on)",
            direction=-1, phases=("forward", "backward"), parts=("forward.kept",), weight=4.0,
        ),
        Known(
            "torch", "2.10",
            "compiled models were reported to need more than under 2.9.1 (14.5 GB for 11), mended in 2.12",
            "github.com/pytorch/pytorch/issues/175058",
            direction=1, phases=("forward", "backward"), needs="arguments.torch_compile",
        ),
        Known(
            "torch", "2.11",
            "default builds are of CUDA 13.0, those of 2.8 to 2.10 of 12.8: context and libraries outside "
            "PyTorch differ",
            "PyTorch's release matrix",
            parts=("outside",), weight=4.0,
        ),
    )  # fmt: skip
    default = (
        "another PyTorch chooses other kernels and workspaces, and may keep other tensors for backward; what is "
        "known of these "
        "versions is nothing in particular"
    )
    default_prior = Suspicion.LIKELY
    default_weight = 4.0
