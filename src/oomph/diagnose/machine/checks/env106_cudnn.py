"""The cuDNN that is installed or loaded is not PyTorch's."""

from __future__ import annotations

import re

from oomph.diagnose.machine.answers import answer, listed
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.cards import capability, labels, nvidia_cards
from oomph.diagnose.machine.libraries import Library, library
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.machine.paths import library_path
from oomph.diagnose.machine.versions import same
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment, Told
from oomph.hardware.drivers import numbers

_SAID = re.compile(r"cuDNN version incompatibility", re.IGNORECASE)
#: torch/backends/cudnn/__init__.py refuses cards below 7.5 with cuDNN 9.11 and newer.
_NEEDS_TURING = (9, 11)


class Cudnn(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV106"
    cause = "cudnn_differs"
    name = "cudnn-differs"
    means = (
        "PyTorch is built against one cuDNN, and another is installed or found first. Another major version, or an "
        "older "
        "minor one, is refused or fails at the first convolution (CUDNN_STATUS_...); a newer minor version loads, and "
        "is not what PyTorch was tested with."
    )
    decisive_evidence = (
        "The version of nvidia-cudnn-cu* against the one that PyTorch's metadata pins, against "
        "torch.backends.cudnn.version(), or a cuDNN of its own in LD_LIBRARY_PATH."
    )
    first_action = "Install the pinned version; take other copies out of LD_LIBRARY_PATH."
    verify = "pip check is quiet about torch, and torch.backends.cudnn.version() is the pinned version."
    wrong_advice = (
        "Installing cuDNN system-wide: PyTorch's wheels bring their own and do not look for it. A CUDNN_STATUS error "
        "alone proves no wrong version: most often the memory is full."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        found = library(environment, "cudnn")
        problems: list[Problem] = []
        clear: list[str] = []
        quote = next((one for one in environment.errors if _SAID.search(one.text)), None)
        if quote is not None:
            problems.append(
                Problem(
                    "PyTorch found a cuDNN that it was not built for, and says so"
                    + (f"; {found.says_so} has {found.wanted}." if found.wanted else "."),
                    does="cuDNN is refused: convolutions fail.",
                    fix="Take the other cuDNN out of LD_LIBRARY_PATH, and install the version that PyTorch pins.",
                    subject="cuDNN",
                    evidence=(quote,),
                )
            )
        _packages(found, problems, clear)
        _loaded(found, problems)
        _too_new_for_cards(environment, found, problems)
        problems += _path(environment, found)
        return answer(problems, clear)


def _packages(found: Library, problems: list[Problem], clear: list[str]) -> None:
    names = sorted({name for name, _ in found.installed})
    if len(names) > 1:
        problems.append(
            Problem(
                f"{listed(names)} are installed together: both put their files into nvidia/cudnn/lib, and the later "
                "one "
                "replaced the other's.",
                does="PyTorch loads whichever was installed last, be it for another CUDA.",
                fix="Remove all of them and install PyTorch again.",
                paste=f"pip uninstall -y {' '.join(names)} && pip install --force-reinstall torch",
                subject="cuDNN",
                severity=Severity.WARNING,
                certainty=Certainty.LIKELY,
                evidence=tuple(version.quote for _, version in found.installed),
            )
        )
        return
    for name, version in found.installed[:1]:
        if not found.wanted:
            continue
        if same(version.value, found.wanted):
            clear.append(f"{name} {version.value} is what {found.says_so} pins")
        else:
            problems.append(_differs(found, name, version))


def _differs(found: Library, name: str, version: Told[str]) -> Problem:
    has, wants = numbers(version.value), numbers(found.wanted)
    refused = has[:1] != wants[:1] or has[:2] < wants[:2]
    return Problem(
        f"{name} {version.value} is installed; {found.says_so} pins {found.wanted}.",
        does="PyTorch refuses it: another major version, or an older minor one than it was compiled against."
        if refused
        else "It loads: newer minor versions fit. Speed, memory of convolutions and at times results differ from what "
        "was tested.",
        fix="Install the pinned version, unless somebody chose the other one.",
        paste=f"pip install {name}=={found.wanted}",
        subject="cuDNN",
        severity=Severity.WARNING,
        certainty=Certainty.CERTAIN if found.wanted_quote is not None else Certainty.LIKELY,
        evidence=(version.quote, *((found.wanted_quote,) if found.wanted_quote else ())),
    )


def _loaded(found: Library, problems: list[Problem]) -> None:
    if not found.loaded or len(found.installed) != 1 or problems:
        return
    name, version = found.installed[0]
    if not same(found.loaded, version.value):
        problems.append(
            Problem(
                f"PyTorch uses cuDNN {found.loaded}, and {name} {version.value} is installed: it is another copy "
                "that is "
                "loaded.",
                does="What the package pins does not count; a copy in LD_LIBRARY_PATH or of another environment does.",
                fix="Find the loaded copy, and take it out of LD_LIBRARY_PATH.",
                paste="LD_DEBUG=libs python -c 'import torch; torch.backends.cudnn.version()' 2>&1 | grep cudnn",
                subject="cuDNN",
                severity=Severity.WARNING,
                certainty=Certainty.LIKELY,
                evidence=(version.quote, *((found.loaded_quote,) if found.loaded_quote else ())),
            )
        )


def _too_new_for_cards(environment: Environment, found: Library, problems: list[Problem]) -> None:
    version = found.loaded or next((one.value for _, one in found.installed), "")
    old = [one for one in nvidia_cards(environment) if (capability(one) or (99, 0)) < (7, 5)]
    if old and version and numbers(version)[:2] >= _NEEDS_TURING:
        problems.append(
            Problem(
                f"cuDNN {version} has nothing for cards before Turing: {labels(old)} ({old[0].name}).",
                does="PyTorch refuses to use cuDNN, or convolutions fail.",
                fix="Install a build for CUDA 12.6, which stays on cuDNN 9.10.",
                subject="cuDNN",
                severity=Severity.WARNING,
                certainty=Certainty.LIKELY,
                evidence=(old[0].quote,),
            )
        )


def _path(environment: Environment, found: Library) -> list[Problem]:
    if found.build is None and not found.installed:
        return []
    for folder, variable in library_path(environment):
        if "cudnn" not in folder.lower() or "site-packages" in folder:
            continue
        theirs = numbers(folder.lower().partition("cudnn")[2].lstrip("-_/v"))
        brings = f"; {found.says_so} has {found.wanted}" if found.wanted else ""
        differs = (
            len(theirs) > 1 and bool(found.wanted) and not same(".".join(map(str, theirs)), found.wanted)
        )
        return [
            Problem(
                f"LD_LIBRARY_PATH has a cuDNN of its own: {folder}{brings}.",
                does="PyTorch's wheel finds its own libcudnn.so first, but that loads its parts (libcudnn_cnn, "
                "libcudnn_ops) by name: they may come from this folder, of another version.",
                fix="Take the folder out of LD_LIBRARY_PATH for PyTorch's processes.",
                subject="LD_LIBRARY_PATH",
                severity=Severity.WARNING,
                certainty=Certainty.LIKELY if differs else Certainty.POSSIBLE,
                evidence=(variable.quote,),
            )
        ]
    return []
