"""Kernel module and user-space driver are of different versions."""

from __future__ import annotations

import re

from oomph.diagnose.machine.answers import answer, listed
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.cards import is_windows
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.machine.versions import same
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment, Told
from oomph.hardware.drivers import newest_cuda, numbers

_MISMATCH = re.compile(
    r"driver/library version mismatch|api mismatch|kernel module has the version", re.IGNORECASE
)


class MixedDrivers(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV104"
    cause = "mixed_drivers"
    name = "mixed-drivers"
    means = (
        "The kernel module that is loaded and the driver's libraries are of different versions, most often since a "
        "package update that replaced the libraries under a running module. Running jobs go on; new ones cannot start."
    )
    decisive_evidence = (
        '"Driver/library version mismatch" from nvidia-smi, "API mismatch" in the kernel log, or two versions told of '
        "one machine."
    )
    first_action = "Reboot, or unload and load the nvidia modules when nothing uses them."
    verify = "nvidia-smi and /proc/driver/nvidia/version print the same version."
    wrong_advice = (
        "Reinstalling PyTorch or the CUDA toolkit: neither brings a driver. In WSL the two versions that nvidia-smi "
        "prints differ, and nothing is wrong."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        for quote in environment.errors:
            if _MISMATCH.search(quote.text):
                return answer([_said(environment)])
        if not environment.drivers:
            return answer([])
        if is_windows(environment):
            return answer([])
        versions = _distinct(environment.drivers)
        if len(versions) > 1:
            return answer([_several(versions)])
        libraries = [
            one for one in _distinct(environment.driver_libraries) if not same(one.value, versions[0].value)
        ]
        if libraries:
            return answer(_library(environment, versions[0], libraries[0]))
        if len(environment.drivers) + len(environment.driver_libraries) > 1:
            return answer([], [f"all that tell a driver version say {versions[0].value}"])
        return answer([])


def _distinct(told: tuple[Told[str], ...]) -> list[Told[str]]:
    """One of each version. NVML prints only two of the three numbers (550.107 of 550.107.02)."""
    found: list[Told[str]] = []
    for one in told:
        if numbers(one.value) and not any(same(one.value, other.value) for other in found):
            found.append(one)
    return found or list(told[:1])


_RELOAD = "sudo rmmod nvidia_drm nvidia_modeset nvidia_uvm nvidia && sudo modprobe nvidia"
_DOES = "nvidia-smi fails, and so does every new process that uses CUDA (at times as error 803 or 804)."


def _said(environment: Environment) -> Problem:
    quotes = [one for one in environment.errors if _MISMATCH.search(one.text)]
    kernels = listed(one.value for one in _distinct(environment.drivers)) if environment.drivers else ""
    libraries = listed(
        one.value for one in _distinct(environment.driver_libraries) if one.value not in kernels
    )
    versions = f": the kernel module is {kernels}" if kernels else ""
    if libraries:
        versions += f"{' and' if kernels else ':'} the libraries are {libraries}"
    return Problem(
        f"The driver's kernel module and its libraries are of different versions{versions}.",
        does=_DOES,
        fix="Reboot the machine; or, when no process uses the GPUs, unload the modules and load them again.",
        paste=_RELOAD,
        subject="driver",
        evidence=tuple(quotes[:4]),
    )


def _several(versions: list[Told[str]]) -> Problem:
    words = listed(f"{one.value} ({one.quote.source})" for one in versions)
    one_source = len({one.quote.source for one in versions}) == 1
    return Problem(
        f"Two driver versions are told of this machine: {words}."
        + ("" if one_source else " If these are files of several machines, ask about one at a time."),
        does=_DOES,
        fix="Compare with the loaded module; if it is not the installed version, reboot.",
        paste="cat /proc/driver/nvidia/version && nvidia-smi --query-gpu=driver_version --format=csv,noheader",
        subject="driver",
        severity=Severity.ERROR if one_source else Severity.WARNING,
        certainty=Certainty.LIKELY if one_source else Certainty.POSSIBLE,
        evidence=tuple(one.quote for one in versions),
    )


def _library(environment: Environment, driver: Told[str], library: Told[str]) -> list[Problem]:
    """A libcuda of a newer CUDA beside an older driver is how cuda-compat works: that is another check's."""
    ahead = numbers(newest_cuda(library.value))[:1] > numbers(newest_cuda(driver.value))[:1]
    if ahead and any("compat" in (one.value or "") for one in environment.all_of("LD_LIBRARY_PATH")):
        return []
    return [
        Problem(
            f"The kernel module is {driver.value}, and the driver's library {library.value}.",
            does=_DOES,
            fix="Reboot the machine. In a container, remove the libraries of a driver that its image brings: they come "
            "from the host.",
            subject="driver",
            certainty=Certainty.LIKELY,
            evidence=(driver.quote, library.quote),
        )
    ]
