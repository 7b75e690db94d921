"""A library that PyTorch's wheels take from a package of NVIDIA's: which is installed, which is pinned."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oomph.diagnose.machine.builds import Build, judged
from oomph.diagnose.machine.versions import pinned, same
from oomph.evidence.environment.model import Environment, Told
from oomph.evidence.model import Quote
from oomph.hardware.drivers import numbers, torch_architectures, torch_release


@dataclass(frozen=True)
class Library:
    """`installed` are packages (nvidia-nccl-cu12) with their versions; `wanted` the version that the installed PyTorch
    pins, with who says so; `loaded` what PyTorch says it uses."""

    installed: tuple[tuple[str, Told[str]], ...] = ()
    wanted: str = ""
    says_so: str = ""
    wanted_quote: Quote | None = None
    loaded: str = ""
    loaded_quote: Quote | None = None
    build: Build | None = None


def library(environment: Environment, name: str) -> Library:
    """What is told of "cudnn" or "nccl"."""
    pattern = re.compile(rf"nvidia-{name}-cu(\d\d)\Z")
    installed = tuple(
        (package, version)
        for package, versions in sorted(environment.packages.items())
        if pattern.match(package)
        for version in versions
    )
    build = next((one for one in judged(environment) if not one.without), None)
    loaded = "" if build is None or build.torch.wanted else str(getattr(build.torch, name))
    wanted, says_so, quote = _wanted(environment, name, build, pattern)
    return Library(
        installed=installed,
        wanted=wanted,
        says_so=says_so,
        wanted_quote=quote,
        loaded=loaded if numbers(loaded) else "",
        loaded_quote=build.torch.quote if build is not None else None,
        build=build,
    )


def _wanted(
    environment: Environment, name: str, build: Build | None, pattern: re.Pattern[str]
) -> tuple[str, str, Quote | None]:
    for package, told in environment.pins.items():
        if pattern.match(package) and pinned(told.value):
            return pinned(told.value), "PyTorch's metadata", told.quote
    if build is None or not build.official or build.torch.wanted or not build.cuda:
        return "", "", None
    release = torch_release(build.torch.version)
    if release is None or not same(release.cuda, build.cuda):
        other = torch_architectures(build.torch.version, build.cuda)
        if name != "cudnn" or other is None or not other.cudnn:
            return "", "", None
        return other.cudnn, f"the official {build.name}", build.torch.quote
    version = release.cudnn if name == "cudnn" else release.nccl
    return version, f"the wheel of PyTorch {release.version} on PyPI", build.torch.quote
