"""What a script or an image installs: PyTorch by pip, uv or conda, CUDA by a module or a package."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from oomph.evidence.environment.formats import torch_builds
from oomph.evidence.environment.formats.shell_words import Word
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import TorchBuild
from oomph.evidence.model import Quote

_INDEX = re.compile(r"download\.pytorch\.org/whl/(?:nightly/|test/)?(cu\d{2,3}|cpu|rocm[\d.]{1,8})")
_TORCH = re.compile(rf"torch(?:\[[^\]]{{0,40}}\])?(?:={{2,3}}|=)({torch_builds.VERSION})$")
_PYTORCH = re.compile(r"pytorch={1,2}(\d[\d.]{1,12})(?:=(\S{1,80}))?$")
_NVIDIA = re.compile(r"(nvidia-[\w-]{2,40}|triton)==([\d.]{1,30})$")
_MODULE = re.compile(
    r"(?:[\w.-]{1,40}/)?(?:cuda|cudatoolkit|CUDA|cuda-toolkit)/(\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)"
)
_RUN = re.compile(r"(?:cuda-toolkit|cuda)-(\d{1,2})-(\d{1,2})$")


def is_install(name: str, rest: Sequence[Word]) -> bool:
    """Does the command install something?"""
    texts = [word.text for word in rest[:6]]
    if name.startswith("python"):
        return texts[:2] == ["-m", "pip"] and "install" in texts
    if name in ("pip", "pip3", "conda", "mamba", "micromamba", "apt-get", "apt"):
        return "install" in texts or "create" in texts
    if name == "uv":
        return texts[:2] == ["pip", "install"] or texts[:1] == ["add"]
    return name in ("module", "ml")


def read(found: Found, name: str, rest: Sequence[Word], quote: Quote) -> bool:
    """Whether something of it was told: what the command asks for."""
    if not is_install(name, rest):
        return False
    told = False
    values = [word.value or "" for word in rest]
    if name in ("module", "ml"):
        for value in values:
            match = _MODULE.match(value)
            if match is not None:
                found.add("toolkits", match[1], quote)
                told = True
        return told
    if name in ("apt-get", "apt"):
        for value in values:
            match = _RUN.match(value)
            if match is not None:
                found.add("toolkits", f"{match[1]}.{match[2]}", quote)
                told = True
        return told
    conda = name in ("conda", "mamba", "micromamba")
    build = _conda(values, quote) if conda else _pip(values, quote)
    if build is not None:
        found.add_torch(build)
        told = True
    for value in values:
        match = _NVIDIA.match(value)
        if match is not None:
            found.add_package(match[1], match[2], quote)
            told = True
    return told


def _pip(values: Sequence[str], quote: Quote) -> TorchBuild | None:
    build: TorchBuild | None = None
    for value in values:
        match = _TORCH.match(value)
        if match is not None:
            build = torch_builds.build(match[1], quote, wanted=True)
        elif build is None and re.match(r"torch(?:[<>~!]=?|$)", value):
            build = TorchBuild(quote=quote, wanted=True)
    if build is None:
        return None
    index = next((match for value in values if (match := _INDEX.search(value))), None)
    if index is not None and not build.local:
        cuda, hip = torch_builds.cuda_of(index[1])
        build = replace(build, local=index[1], cuda=cuda, hip=hip)
    return build


def _conda(values: Sequence[str], quote: Quote) -> TorchBuild | None:
    build: TorchBuild | None = None
    cuda: str | None = ""
    for value in values:
        match = _PYTORCH.match(value)
        if match is not None:
            build = torch_builds.conda_build(match[1], match[2] or "", quote)
        elif value == "pytorch" and build is None:
            build = TorchBuild(quote=quote)
        pinned = re.match(r"(?:pytorch-cuda|cudatoolkit)=(\d{1,2}\.\d{1,2})", value)
        if pinned is not None:
            cuda = pinned[1]
        elif value == "cpuonly":
            cuda = None
    if build is None:
        return None
    return replace(build, cuda=cuda if cuda != "" else build.cuda, wanted=True)
