"""Versions of libraries, by the names of their metadata, without importing them; of CUDA, cuDNN, NCCL, the driver."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from oomph.recording.fingerprint.found import Found

#: Distributions that decide about memory.
LIBRARIES = (
    "torch", "transformers", "accelerate", "peft", "trl", "bitsandbytes", "deepspeed", "diffusers", "datasets",
    "safetensors", "tokenizers", "triton", "flash-attn", "xformers", "liger-kernel", "torchao", "torchtune",
    "torchtitan", "lightning", "pytorch-lightning", "litgpt", "axolotl", "llamafactory", "unsloth", "apex",
    "transformer-engine", "megatron-core", "cut-cross-entropy", "galore-torch", "optimum", "sentence-transformers",
    "timm", "torchvision", "numpy", "oomph",
)  # fmt: skip
_DRIVER = re.compile(r"Kernel Module(?: for \w+)?\s+([0-9]{3,}(?:\.[0-9]+)+)")


def versions(found: Found, root: Path) -> None:
    """`versions.*`."""
    found.put("versions.python", platform.python_version())
    there = installed()
    for name in LIBRARIES:
        found.put(f"versions.{name}", there.get(name))
    if "versions.torch" not in found.values and "torch" not in sys.modules:
        found.miss("versions.torch", "PyTorch is not installed beside oomph")
    _of_torch(found, there)
    _driver(found, root)


def installed(path: Sequence[str] | None = None) -> dict[str, str]:
    """Versions of all distributions on the path, by normalised name: from the names of their .dist-info folders, as
    reading their metadata one by one takes a millisecond each. The first on the path counts, as with imports."""
    result: dict[str, str] = {}
    for folder in sys.path if path is None else path:
        with suppress(OSError):
            for name in os.listdir(folder or "."):  # noqa: PTH208 - names are all that is wanted
                stem, dot, _ = name.rpartition(".dist-info")
                library, dash, version = stem.partition("-")
                if dot and dash:
                    result.setdefault(re.sub(r"[-_.]+", "-", library).lower(), version)
    return result


def _of_torch(found: Found, there: dict[str, str]) -> None:
    """What an imported PyTorch says of itself, and else what the packages of NVIDIA's libraries say."""
    torch = sys.modules.get("torch")
    built = getattr(torch, "version", None)
    if built is not None:
        found.put("versions.torch", getattr(torch, "__version__", None))
        found.put("versions.cuda", getattr(built, "cuda", None))
        found.put("versions.rocm", getattr(built, "hip", None))
        found.put("versions.torch_git", getattr(built, "git_version", None))
    for name, packages in _NVIDIA.items():
        found.put(f"versions.{name}", next((there[each] for each in packages if each in there), None))


_NVIDIA = {
    "cudnn": ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu11"),
    "nccl": ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"),
    "cublas": ("nvidia-cublas", "nvidia-cublas-cu12", "nvidia-cublas-cu11"),
}


def _driver(found: Found, root: Path) -> None:
    for path in ("proc/driver/nvidia/version", "sys/module/nvidia/version"):
        with suppress(OSError):
            text = (root / path).read_text(encoding="ascii", errors="replace")[:4096]
            match = _DRIVER.search(text) if path.startswith("proc") else re.match(r"\s*([0-9.]{5,})", text)
            if match:
                found.put("versions.driver", match[1])
                return
    found.miss("versions.driver", "no NVIDIA driver is loaded here (/proc/driver/nvidia/version)")
