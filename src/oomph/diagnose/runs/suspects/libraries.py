"""Versions of everything else that a job is made of."""

from __future__ import annotations

from oomph.diagnose.runs.model import Suspicion
from oomph.diagnose.runs.suspects.version_kind import VersionKind


class Frameworks(VersionKind):
    """Trainers and the libraries that divide models."""

    name = "framework version"
    order = 43
    libraries = ("accelerate", "deepspeed", "lightning", "pytorch-lightning", "litgpt", "torchtune",
                 "torchtitan", "axolotl",
                 "llamafactory", "megatron-core", "transformer-engine", "apex", "diffusers", "optimum",
                 "timm", "torchvision",
                 "sentence-transformers")  # fmt: skip
    default = "it decides what is wrapped, cast, gathered and kept around the model, and when gradients go"
    default_weight = 3.5


class Below(VersionKind):
    """What lies below PyTorch."""

    name = "CUDA version"
    order = 44
    libraries = ("cuda", "rocm", "cudnn", "nccl", "cublas", "driver")
    default = (
        "contexts, buffers of NCCL and workspaces, mostly outside PyTorch, differ between these versions"
    )
    default_weight = 3.0
    default_parts = ("outside",)


class Rest(VersionKind):
    """What has to do with data and files, and Python."""

    name = "library version"
    order = 45
    libraries = ("datasets", "safetensors", "numpy", "python")
    default = "it has to do with files and main memory, hardly with the GPU's"
    default_prior = Suspicion.UNLIKELY
    default_weight = 1.0
