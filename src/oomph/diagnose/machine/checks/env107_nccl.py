"""The NCCL that is installed or loaded is not the one that PyTorch pins."""

from __future__ import annotations

import re

from oomph.diagnose.machine.answers import answer, listed
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.libraries import Library, library
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.machine.paths import library_path, preloaded
from oomph.diagnose.machine.versions import same
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment

_LIBRARY = re.compile(r"libnccl(?:\.so|-)", re.IGNORECASE)
_PLUGIN = re.compile(
    r"nccl[-_](?:net|tuner|profiler|ofi|fastsocket|rdma|gpudirect)|aws-ofi-nccl|fastsocket", re.I
)


class Nccl(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV107"
    cause = "nccl_differs"
    name = "nccl-differs"
    means = (
        "Another NCCL than the one PyTorch pins is installed, preloaded or named by a variable. It may work and be "
        "chosen on purpose; ranks with different versions do not work together, and buffers outside PyTorch's "
        "allocator "
        "differ by version."
    )
    decisive_evidence = (
        "The version of nvidia-nccl-cu* against the one that PyTorch's metadata pins, torch.cuda.nccl.version(), "
        "LD_PRELOAD and VLLM_NCCL_SO_PATH."
    )
    first_action = "Install the pinned version, the same on all nodes; or know why not."
    verify = "NCCL_DEBUG=VERSION prints one and the same version for every rank."
    wrong_advice = (
        "Upgrading NCCL against an out-of-memory error: newer versions use as much memory, or more."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        found = library(environment, "nccl")
        problems: list[Problem] = []
        clear: list[str] = []
        _packages(found, problems, clear)
        if not problems:
            problems += _loaded(found)
        problems += _named_elsewhere(environment, found)
        return answer(problems, clear)


def _packages(found: Library, problems: list[Problem], clear: list[str]) -> None:
    names = sorted({name for name, _ in found.installed})
    if len(names) > 1:
        problems.append(
            Problem(
                f"{listed(names)} are installed together: both put libnccl.so.2 into nvidia/nccl/lib, and the later "
                "one "
                "replaced the other's.",
                does="PyTorch loads whichever was installed last.",
                fix="Remove all of them and install PyTorch again.",
                paste=f"pip uninstall -y {' '.join(names)} && pip install --force-reinstall torch",
                subject="NCCL",
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
            continue
        problems.append(
            Problem(
                f"{name} {version.value} is installed; {found.says_so} pins {found.wanted}.",
                does="It loads and mostly works. All ranks need the same one, and what NCCL takes of the GPU's memory "
                "differs by version.",
                fix="Install the pinned version, unless somebody chose the other one.",
                paste=f"pip install {name}=={found.wanted}",
                subject="NCCL",
                severity=Severity.WARNING,
                certainty=Certainty.CERTAIN if found.wanted_quote is not None else Certainty.LIKELY,
                evidence=(version.quote, *((found.wanted_quote,) if found.wanted_quote else ())),
            )
        )


def _loaded(found: Library) -> list[Problem]:
    if not found.loaded:
        return []
    installed = found.installed[0][1].value if len(found.installed) == 1 else ""
    other = installed or found.wanted
    if not other or same(found.loaded, other):
        return []
    whose = (
        f"{found.installed[0][0]} {installed} is installed" if installed else f"{found.says_so} pins {other}"
    )
    return [
        Problem(
            f"PyTorch uses NCCL {found.loaded}, and {whose}: it is another copy that is loaded.",
            does="Ranks may load different copies; then they do not work together.",
            fix="Find the loaded copy (LD_PRELOAD, LD_LIBRARY_PATH), and use the pinned one on all ranks.",
            paste="LD_DEBUG=libs python -c 'import torch; torch.cuda.nccl.version()' 2>&1 | grep nccl",
            subject="NCCL",
            severity=Severity.WARNING,
            certainty=Certainty.LIKELY,
            evidence=(found.loaded_quote,) if found.loaded_quote else (),
        )
    ]


def _named_elsewhere(environment: Environment, found: Library) -> list[Problem]:
    problems: list[Problem] = []
    for word, variable in preloaded(environment):
        if _LIBRARY.search(word.rpartition("/")[2]) and not _PLUGIN.search(word):
            problems.append(
                Problem(
                    f"LD_PRELOAD loads {word} before PyTorch's own NCCL.",
                    does="Every process of the job uses that copy, whatever PyTorch pins.",
                    fix="Take it out of LD_PRELOAD, unless it is there on purpose and the same on all nodes.",
                    subject="LD_PRELOAD",
                    severity=Severity.WARNING,
                    evidence=(variable.quote,),
                )
            )
    path = environment.variable("VLLM_NCCL_SO_PATH")
    if path is not None and path.value:
        problems.append(
            Problem(
                f"VLLM_NCCL_SO_PATH names another NCCL: {path.value}.",
                does="vLLM loads that copy beside PyTorch's: two of them in one process, each with its own buffers.",
                fix="Unset it: the reason for it (NCCL 2.19's memory) is gone in newer versions.",
                paste="unset VLLM_NCCL_SO_PATH",
                subject="VLLM_NCCL_SO_PATH",
                severity=Severity.WARNING,
                certainty=Certainty.LIKELY,
                evidence=(path.quote,),
            )
        )
    for folder, variable in library_path(environment):
        own = "site-packages" in folder or _PLUGIN.search(folder)
        if "nccl" in folder.lower() and not own and (found.build is not None or found.installed):
            problems.append(
                Problem(
                    f"LD_LIBRARY_PATH has an NCCL of its own: {folder}.",
                    does="PyTorch's wheels find their own first; builds from source, conda and images of vendors use "
                    "this "
                    "one.",
                    fix="See with NCCL_DEBUG=VERSION which one is used; take the folder out if it is not meant.",
                    paste="NCCL_DEBUG=VERSION",
                    subject="LD_LIBRARY_PATH",
                    severity=Severity.WARNING,
                    certainty=Certainty.POSSIBLE,
                    evidence=(variable.quote,),
                )
            )
            break
    return problems
