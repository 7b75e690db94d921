"""The PyTorch builds of an environment, and which CUDA each was built with."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oomph.diagnose.machine.cards import capability, is_windows, nvidia_cards
from oomph.evidence.environment.model import Environment, TorchBuild
from oomph.hardware.drivers import (
    TorchArchitectures,
    at_least,
    code_for,
    default_cuda,
    minimum_driver,
    numbers,
    table,
)

_LOCAL = re.compile(r"cu(\d{1,2})(\d)(?:\Z|[^\d])")
_RUNTIME = re.compile(r"nvidia-cuda-runtime(?:-cu\d\d)?\Z")
_OTHER_MACHINES = re.compile(r"aarch64|arm64|sbsa|darwin|macos|windows", re.IGNORECASE)


@dataclass(frozen=True)
class Build:
    """A PyTorch build with the CUDA it was built with ("12.1", "" where that is not known). `assumed` says how it was
    concluded where no text says it, "" where one does. `without` is what it was built for instead of CUDA."""

    torch: TorchBuild
    cuda: str = ""
    assumed: str = ""
    without: str = ""

    @property
    def name(self) -> str:
        """`PyTorch 2.3.1 (CUDA 12.1)`."""
        version = f"PyTorch {self.torch.version}".strip()
        if self.without:
            return f"{version} ({self.without})"
        return f"{version} (CUDA {self.cuda})" if self.cuda else version

    @property
    def official(self) -> bool:
        """Whether it may be a wheel of the PyTorch project: a release, without a vendor's tag."""
        released = not re.search(r"[a-z]", self.torch.version)
        return released and (not self.torch.local or self.tagged)

    @property
    def tagged(self) -> bool:
        """Whether it has the tag of the project's own wheels (+cu121)."""
        return bool(_LOCAL.match(self.torch.local))


def judged(environment: Environment) -> tuple[Build, ...]:
    """The builds to judge, one per CUDA: installed ones; where none is, those that an image or a file asks for."""
    installed = [one for one in environment.torch if not one.wanted]
    found: dict[tuple[str, str, str], Build] = {}
    for one in installed or environment.torch:
        build = build_of(one, environment)
        found.setdefault((one.version, build.cuda, build.without), build)
    sure = [one for one in found.values() if one.cuda or one.without]
    return tuple(sure or found.values())


def build_of(torch: TorchBuild, environment: Environment) -> Build:
    """What a build was made with: by its own word, its version's tag, the CUDA runtime package beside it, or as PyPI's
    default for that version on Linux."""
    without = _without_cuda(torch)
    if without:
        return Build(torch, without=without)
    if torch.cuda:
        return Build(torch, ".".join(map(str, numbers(torch.cuda)[:2])))
    local = _LOCAL.match(torch.local)
    if local is not None:
        return Build(torch, f"{local[1]}.{local[2]}")
    if torch.local or not torch.version or re.search(r"[a-z]", torch.version):
        return Build(torch)
    if not torch.wanted:
        for name, versions in environment.packages.items():
            if _RUNTIME.match(name) and len(numbers(versions[0].value)) > 1:
                runtime = ".".join(map(str, numbers(versions[0].value)[:2]))
                return Build(torch, runtime, f"the installed {name} is {versions[0].value}")
    system = environment.system.value if environment.system else ""
    wsl = environment.wsl is not None and environment.wsl.value
    if _OTHER_MACHINES.search(system) and not (wsl and "windows" in system.lower()):
        return Build(torch)
    default = default_cuda(torch.version)
    return Build(torch, default, "the build on PyPI for Linux" if default else "")


def _without_cuda(torch: TorchBuild) -> str:
    if torch.hip or torch.local.startswith("rocm"):
        return f"ROCm {torch.hip or torch.local.removeprefix('rocm')}".strip()
    if torch.local.startswith("xpu"):
        return "XPU build"
    if torch.local.startswith("cpu"):
        return "CPU build"
    # Some print no CUDA version although the tag names one: the tag says how it was built.
    if torch.cuda is None and not _LOCAL.match(torch.local):
        return "CPU build"
    return ""


def other_build(build: Build, environment: Environment) -> TorchArchitectures | None:
    """The official build nearest to this one that the driver runs (where one is told) and that has code for all
    cards: of the same PyTorch version, else of the nearest newer one, else of the nearest older one."""
    windows = is_windows(environment)
    driver = environment.driver.value if environment.driver is not None else ""
    wanted = {its for card in nvidia_cards(environment) if (its := capability(card)) is not None}
    version = numbers(build.torch.version)[:2]
    fitting: list[TorchArchitectures] = []
    for one in table().builds:
        least = minimum_driver(one.cuda, windows=windows)
        runs = not driver or (least is not None and at_least(driver, least.driver))
        if runs and all(code_for(one.architectures, its) == "binary" for its in wanted):
            fitting.append(one)
    same = [one for one in fitting if numbers(one.torch) == version]
    newer = [one for one in fitting if numbers(one.torch) > version]
    older = [one for one in fitting if numbers(one.torch) < version]
    if same:
        return same[-1]
    if newer and version:
        return max((one for one in newer if one.torch == newer[0].torch), key=lambda one: numbers(one.cuda))
    rest = older or newer
    return rest[-1] if rest else None


def install_line(build: Build, other: TorchArchitectures) -> str:
    """The command that installs it, of the same patch version where that is the version."""
    same = numbers(other.torch) == numbers(build.torch.version)[:2]
    version = build.torch.version if same else f"{other.torch}.*"
    index = f"https://download.pytorch.org/whl/cu{other.cuda.replace('.', '')}"
    return f"pip install 'torch=={version}' --index-url {index}"
