"""The driver is older than PyTorch's CUDA build needs."""

from __future__ import annotations

import re

from oomph.diagnose.machine.answers import answer
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.builds import Build, install_line, judged, other_build
from oomph.diagnose.machine.cards import is_windows, kind, nvidia_cards
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.machine.paths import library_path
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment
from oomph.evidence.model import Quote
from oomph.hardware.drivers import Minimum, at_least, minimum_driver, newest_cuda, numbers

#: torch/csrc/utils/device_lazy_init and torch.cuda._lazy_init: the number is 1000 * major + 10 * minor.
_TOO_OLD = re.compile(r"driver on your system is too old \(found version (\d{4,5})\)")
#: Images that bring a cuda-compat package with them.
_NVIDIA_IMAGE = re.compile(r"(?:^|/)nvidia/|^nvcr\.io/")


class DriverTooOld(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV101"
    cause = "driver_too_old"
    name = "driver-too-old-for-the-cuda-build"
    means = (
        "The kernel driver is older than the CUDA that PyTorch was built with needs. torch.cuda.is_available() is "
        "False, "
        "or the first CUDA call fails; it is never an out-of-memory error."
    )
    decisive_evidence = (
        "The driver's version, below the least for the build's CUDA major version: 450.80.02 for 11.x, 525.60.13 for "
        "12.x, 580 for 13.x (Windows and WSL have their own numbers: 452.39, 528.33, 580). Within a major version any "
        "minor one runs, and a newer driver runs every older build."
    )
    first_action = (
        "Install a PyTorch build for a CUDA that the driver runs, or a newer driver; one of the two."
    )
    verify = "python -c 'import torch; print(torch.cuda.is_available())' prints True."
    wrong_advice = (
        'Matching nvidia-smi\'s "CUDA Version" to the toolkit. It is the newest version the driver knows, not one that '
        "has to be installed: driver 460 (11.2) runs CUDA 11.8 builds. Installing another toolkit changes nothing: "
        "PyTorch's wheels bring their own."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        problems: list[Problem] = []
        clear: list[str] = []
        untold: list[str] = []
        builds = [one for one in judged(environment) if not one.without]
        if not builds and not environment.drivers:
            return answer(_said_by_torch(environment, None))
        if not builds:
            if environment.torch:
                return answer([])
            said = _said_by_torch(environment, None)
            return answer(said, (), ["no PyTorch build is told: torch.version.cuda tells which CUDA it has"])
        for build in builds:
            _judge(environment, build, problems, clear, untold)
        return answer(problems or _said_by_torch(environment, builds[0]), clear, untold)


def _judge(
    environment: Environment, build: Build, problems: list[Problem], clear: list[str], untold: list[str]
) -> None:
    if not build.cuda:
        untold.append(f"which CUDA {build.name} was built with: torch.version.cuda tells it")
        return
    works = bool(build.torch.available) and not build.torch.wanted
    windows = is_windows(environment)
    least = minimum_driver(build.cuda, windows=windows)
    fits = (
        least is not None
        and environment.driver is not None
        and bool(numbers(environment.driver.value))
        and at_least(environment.driver.value, least.driver)
    )
    if works and not fits:
        clear.append(f"torch.cuda.is_available() is True with {build.name}")
    elif least is None:
        untold.append(f"the oldest driver for CUDA {build.cuda} is not in the table")
    elif environment.driver is None:
        _by_cuda_alone(environment, build, least, problems, clear, untold)
    elif not numbers(environment.driver.value):
        untold.append(f"{environment.driver.value!r} is no driver version")
    elif fits:
        clear.append(_runs(environment, build, least))
    else:
        _too_old(environment, build, least, problems, clear)


def _runs(environment: Environment, build: Build, least: Minimum) -> str:
    driver = environment.driver.value if environment.driver else ""
    says = f"driver {driver} runs CUDA {build.cuda} builds: they need at least {least.driver}"
    shown = environment.driver_cuda.value if environment.driver_cuda else newest_cuda(driver)
    if shown and numbers(shown)[:2] != numbers(build.cuda)[:2]:
        rule = "older" if numbers(shown) < numbers(build.cuda) else "newer"
        says += f" (the driver's own CUDA {shown} is {rule}, and need not match: " + (
            "one driver runs all builds of a major version)"
            if rule == "older"
            else "drivers run older builds)"
        )
    return says


def _by_cuda_alone(
    environment: Environment,
    build: Build,
    least: Minimum,
    problems: list[Problem],
    clear: list[str],
    untold: list[str],
) -> None:
    """Only nvidia-smi's "CUDA Version" is told: its major version decides."""
    shown = environment.driver_cuda
    if shown is None or not numbers(shown.value):
        untold.append(
            "no driver version is told: nvidia-smi prints it, and /proc/driver/nvidia/version has it"
        )
    elif numbers(shown.value)[0] >= numbers(build.cuda)[0]:
        clear.append(f"a driver of CUDA {shown.value} runs CUDA {build.cuda} builds")
    else:
        problems.append(
            Problem(
                f"The driver knows CUDA {shown.value} at most, and {build.name} needs a driver of at least "
                f"{least.driver}.",
                does=_DOES,
                fix=f"Install driver {least.driver} or newer, or a build for CUDA {numbers(shown.value)[0]}.x.",
                subject=f"CUDA {shown.value}",
                certainty=Certainty.LIKELY,
                evidence=(shown.quote, build.torch.quote),
            )
        )


_DOES = (
    'torch.cuda.is_available() is False, and the first CUDA call raises "The NVIDIA driver on your system is too '
    'old".'
)


def _too_old(
    environment: Environment, build: Build, least: Minimum, problems: list[Problem], clear: list[str]
) -> None:
    driver = environment.driver
    if driver is None:
        return
    cards = nvidia_cards(environment)
    kinds = {kind(one) for one in cards}
    shown = environment.driver_cuda
    major = numbers(build.cuda)[0]
    ahead = shown is not None and numbers(newest_cuda(driver.value))[:1] < numbers(shown.value)[:1] >= (
        major,
    )
    if ahead and kinds <= {"datacenter"} and shown is not None:
        clear.append(
            f"driver {driver.value} alone is below {least.driver}, which {build.name} needs, and it shows CUDA "
            f"{shown.value}: a cuda-compat package is in use, which data-centre cards support"
        )
        return
    bridge = _bridge(environment, major) if "datacenter" in kinds or not cards else None
    says = (
        f"Driver {driver.value} is too old for {build.name}: CUDA {major}.x needs at least {least.driver}"
        f"{', by minor-version compatibility' if major > 10 else ''}."
    )
    if build.assumed:
        says += f" (CUDA {build.cuda}: {build.assumed}.)"
    if bridge is not None:
        problems.append(
            Problem(
                f"{says} It works only if the cuda-compat package that {bridge[0]} has is found first.",
                does=_DOES,
                fix=f"See whether torch.cuda.is_available() is True there; else install driver {least.driver} or "
                "newer.",
                paste="python -c 'import torch; print(torch.cuda.is_available())'",
                subject=f"driver {driver.value}",
                severity=Severity.WARNING,
                certainty=Certainty.POSSIBLE,
                evidence=(driver.quote, build.torch.quote, bridge[1]),
            )
        )
        return
    other = other_build(build, environment)
    if other is not None and numbers(other.cuda)[0] == major:
        other = None
    compat = f"cuda-compat-{build.cuda.replace('.', '-')}"
    if kinds == {"datacenter"} and not is_windows(environment):
        hint = f" On data-centre cards the package {compat} may do without a new driver."
    elif "consumer" in kinds:
        hint = f" {compat} does not work on GeForce cards."
    else:
        hint = ""
    fix = f"Install driver {least.driver} or newer"
    if other is not None:
        fix += f", or PyTorch {other.torch} for CUDA {other.cuda}, which this driver runs"
    problems.append(
        Problem(
            says,
            does=_DOES,
            fix=f"{fix}.{hint}",
            paste=install_line(build, other) if other is not None else "",
            subject=f"driver {driver.value}",
            certainty=Certainty.LIKELY if build.torch.wanted or build.assumed else Certainty.CERTAIN,
            evidence=(driver.quote, build.torch.quote),
        )
    )


def _bridge(environment: Environment, major: int) -> tuple[str, Quote] | None:
    """What may bring a cuda-compat package of that CUDA: an image of NVIDIA's, a package, LD_LIBRARY_PATH."""
    for image in environment.images:
        tag = numbers(image.value.rpartition(":")[2])
        own = "nvcr.io" in image.value and not image.value.startswith("nvcr.io/nvidia/cuda")
        if _NVIDIA_IMAGE.search(image.value) and (own or tag[:1] >= (major,)):
            return f"the image {image.value}", image.quote
    for name, versions in environment.packages.items():
        if name.startswith("cuda-compat"):
            return f"the package {name}", versions[0].quote
    for folder, variable in library_path(environment):
        if folder.endswith(("/compat", "/compat/lib", "/compat/lib.real")):
            return f"LD_LIBRARY_PATH ({folder})", variable.quote
    return None


def _said_by_torch(environment: Environment, build: Build | None) -> list[Problem]:
    """PyTorch's own message, where the versions are not told."""
    for quote in environment.errors:
        match = _TOO_OLD.search(quote.text)
        if match is None:
            continue
        number = int(match[1])
        cuda = f"{number // 1000}.{number % 1000 // 10}"
        what = build.name if build is not None else "the installed PyTorch"
        least = minimum_driver(build.cuda) if build is not None and build.cuda else None
        need = f", which needs at least {least.driver}" if least is not None else ""
        return [
            Problem(
                f"PyTorch says that the driver is too old: it knows CUDA {cuda} at most, too little for {what}{need}.",
                does=_DOES,
                fix=f"Install a newer driver, or a build for CUDA {number // 1000}.x.",
                subject=f"CUDA {cuda}",
                evidence=(quote,),
            )
        ]
    return []
