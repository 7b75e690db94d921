"""PyTorch builds as version strings and conda's build strings write them."""

from __future__ import annotations

import re

from oomph.evidence.environment.model import TorchBuild
from oomph.evidence.model import Quote

#: "2.1.0+cu121", "2.2.0a0+81ea7a4", "1.13.1".
VERSION = r"\d{1,2}\.\d{1,3}(?:\.\d{1,3})?(?:(?:a|b|rc|\.dev|\.post)\d{1,8})?(?:\+[\w.]{1,40})?"
_CUDA = re.compile(r"cu(\d{2,3})(?:\.|$)")
_ROCM = re.compile(r"rocm(\d[\d.]{0,10})")
_CONDA_CUDA = re.compile(r"(?:^|_)cuda_?(\d{1,2})\.?(\d{1,2})?(?:_|$|\.)")
_CONDA_CUDNN = re.compile(r"cudnn(\d{1,2}(?:\.\d{1,2}){1,3})")


def cuda_of(local: str) -> tuple[str | None, str]:
    """(CUDA, ROCm) of a local version: "cu121" is ("12.1", ""), "cpu" (None, ""), "rocm6.0" (None, "6.0")."""
    digits = _CUDA.match(local)
    if digits is not None:
        return f"{digits[1][:-1]}.{digits[1][-1]}", ""
    rocm = _ROCM.match(local)
    if rocm is not None:
        return None, rocm[1].rstrip(".")
    return (None if local.startswith("cpu") else ""), ""


def build(text: str, quote: Quote, *, wanted: bool = False) -> TorchBuild | None:
    """The build that a version string names; None for what is no version."""
    match = re.fullmatch(VERSION, text.strip().strip("'\""))
    if match is None:
        return None
    version, _, local = match[0].partition("+")
    cuda, hip = cuda_of(local)
    return TorchBuild(quote=quote, version=version, local=local, cuda=cuda, hip=hip, wanted=wanted)


def conda_build(version: str, string: str, quote: Quote) -> TorchBuild:
    """A conda package's build: "py3.10_cuda12.1_cudnn8.9.2_0", "cuda120_py310h2ef2e6d_301", "cpu_generic_py310..."."""
    cuda: str | None = ""
    match = _CONDA_CUDA.search(string)
    if match is not None:
        major = match[1]
        cuda = f"{major[:2]}.{match[2] or '0'}"
        if "." not in string[match.start() : match.end()] and match[2]:
            cuda = f"{major}.{match[2][0]}"
    elif string.startswith("cpu") or "_cpu" in string:
        cuda = None
    cudnn = _CONDA_CUDNN.search(string)
    return TorchBuild(quote=quote, version=version, cuda=cuda, cudnn=cudnn[1] if cudnn is not None else "")


def cudnn_of(number: int) -> str:
    """torch.backends.cudnn.version() in words: 8902 is 8.9.2, 90100 is 9.1.0 (major * 10000 from cuDNN 9 on)."""
    if number >= 90_000:
        return f"{number // 10_000}.{number % 10_000 // 100}.{number % 100}"
    return f"{number // 1000}.{number % 1000 // 100}.{number % 100}"
