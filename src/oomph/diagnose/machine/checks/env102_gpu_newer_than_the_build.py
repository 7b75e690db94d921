"""PyTorch's build has no code for a card."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oomph.diagnose.machine.answers import answer, listed
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.builds import Build, install_line, judged, other_build
from oomph.diagnose.machine.cards import capability, labels, nvidia_cards
from oomph.diagnose.machine.model import Answer, Asked, Problem, Severity
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Card, Environment
from oomph.evidence.model import Quote
from oomph.hardware.drivers import builds_with, code_for, newest_cuda, numbers, torch_architectures

#: Jetson and Drive: desktop machine code does not run there (CUDA programming guide, binary compatibility).
_TEGRA = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0)})
_OTHER_MACHINES = re.compile(r"aarch64|arm64|sbsa", re.IGNORECASE)
_SAID = re.compile(
    r"with CUDA capability sm_(\d{2,3}) is not compatible with the current PyTorch|no kernel image is available"
    r"|PyTorch no longer supports this GPU because it is too old"
)


class GpuNewerThanTheBuild(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV102"
    cause = "architecture_missing"
    name = "gpu-newer-than-the-build"
    means = (
        "The installed PyTorch was compiled for other GPU architectures than this card's: the card is newer than the "
        "build (RTX 50 and B200 need a build for CUDA 12.8 or newer), or so old that newer builds left it out."
    )
    decisive_evidence = (
        "torch.cuda.get_arch_list() against the card's compute capability: sm_80 code runs on 8.x cards from 8.0 on, "
        "not "
        "on 9.0; sm_90a on 9.0 alone; PTX (compute_90) on every newer card, compiled at first use."
    )
    first_action = "Install a build that has the architecture."
    verify = (
        "A small product on the GPU runs: torch.ones(2, 2, device='cuda') @ torch.ones(2, 2, device='cuda')."
    )
    wrong_advice = (
        "TORCH_CUDA_ARCH_LIST: it counts when PyTorch or an extension is compiled and changes nothing in an installed "
        "wheel. torch.cuda.is_available() is True all the same: it does not look at the architectures."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        cards = nvidia_cards(environment)
        builds = [one for one in judged(environment) if not one.without]
        if not builds and not environment.torch and not cards:
            return answer(_said(environment, fits=False))
        problems: list[Problem] = []
        clear: list[str] = []
        untold: list[str] = []
        for build in builds:
            self._judge(environment, build, cards, problems, clear, untold)
        if not environment.torch and cards:
            untold.append("no PyTorch build is told: torch.cuda.get_arch_list() tells what it has code for")
        return answer(problems or _said(environment, fits=bool(clear)), clear, untold)

    def _judge(
        self,
        environment: Environment,
        build: Build,
        cards: Sequence[Card],
        problems: list[Problem],
        clear: list[str],
        untold: list[str],
    ) -> None:
        if not cards:
            untold.append("no card is told: nvidia-smi -L names them")
            return
        architectures, sure = _architectures(environment, build)
        if not architectures:
            untold.append(f"what {build.name} has code for: torch.cuda.get_arch_list() tells it")
            return
        kinds: dict[tuple[int, int], list[Card]] = {}
        for card in cards:
            its = capability(card)
            if its is None or (its in _TEGRA and f"sm_{its[0]}{its[1]}" not in architectures):
                untold.append(
                    f"the architecture of {card.name or 'a card'}: torch.cuda.get_device_capability() tells it"
                )
            else:
                kinds.setdefault(its, []).append(card)
        for its, those in kinds.items():
            code = code_for(architectures, its)
            if code == "binary":
                near = listed(one for one in architectures if code_for([one], its) == "binary")
                clear.append(
                    f"{build.name} has code for {those[0].name} (capability {its[0]}.{its[1]}): {near}"
                )
            elif code == "ptx":
                problems.append(_compiled(environment, build, architectures, its, those))
            else:
                problems.append(_missing(environment, build, architectures, its, those, sure))


def _architectures(environment: Environment, build: Build) -> tuple[tuple[str, ...], bool]:
    """What the build has code for, and whether somebody said so of this very build or it was looked up."""
    if build.torch.architectures:
        return build.torch.architectures, True
    system = environment.system.value if environment.system else ""
    if not build.official or not build.cuda or not build.torch.version or _OTHER_MACHINES.search(system):
        return (), False
    found = torch_architectures(build.torch.version, build.cuda)
    return (found.architectures, found.checked and build.tagged) if found is not None else ((), False)


def _compiled(
    environment: Environment,
    build: Build,
    architectures: Sequence[str],
    its: tuple[int, int],
    cards: Sequence[Card],
) -> Problem:
    """Only PTX: the driver compiles it, if it knows the PTX of that toolkit."""
    driver = environment.driver
    shown = (
        environment.driver_cuda.value
        if environment.driver_cuda
        else newest_cuda(driver.value if driver else "")
    )
    what = f"{cards[0].name} ({labels(cards)}) has capability {its[0]}.{its[1]}"
    ptx = listed(one for one in architectures if code_for([one], its) == "ptx")
    quotes = (cards[0].quote, build.torch.quote)
    fix, paste = _fix(build, its, environment)
    if shown and build.cuda and numbers(shown)[:2] < numbers(build.cuda)[:2]:
        return Problem(
            f"{what}; {build.name} has only PTX for it ({ptx}), and the driver knows CUDA {shown}: too old to compile "
            f"PTX of CUDA {build.cuda}.",
            does="The first kernel fails (cudaErrorUnsupportedPtxVersion).",
            fix=f"{fix} A driver of CUDA {build.cuda} or newer can compile the PTX.",
            paste=paste,
            subject=labels(cards),
            certainty=Certainty.LIKELY,
            evidence=quotes,
        )
    return Problem(
        f"{what}; {build.name} has no machine code for it, only PTX ({ptx}).",
        does="The driver compiles every kernel when it is first used: minutes at the start, and slower kernels after "
        "it.",
        fix=fix,
        paste=paste,
        subject=labels(cards),
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        evidence=quotes,
    )


def _missing(
    environment: Environment,
    build: Build,
    architectures: Sequence[str],
    its: tuple[int, int],
    cards: Sequence[Card],
    sure: bool,
) -> Problem:
    have = [numbers(one.partition("_")[2])[0] for one in architectures if numbers(one.partition("_")[2])]
    target = its[0] * 10 + its[1]
    fix, paste = _fix(build, its, environment)
    older = bool(have) and target < min(have)
    whose = "newer builds leave cards as old as this out" if older else "the card is newer than the build"
    return Problem(
        f"{cards[0].name} ({labels(cards)}) has capability {its[0]}.{its[1]} (sm_{target}); {build.name} has code for "
        f"{', '.join(architectures)}: {whose}.",
        does='The first kernel fails with "no kernel image is available for execution on the device", although '
        "torch.cuda.is_available() is True.",
        fix=fix,
        paste=paste,
        subject=labels(cards),
        certainty=Certainty.CERTAIN if sure and not build.torch.wanted else Certainty.LIKELY,
        evidence=(cards[0].quote, build.torch.quote),
    )


def _fix(build: Build, its: tuple[int, int], environment: Environment) -> tuple[str, str]:
    """What to install, and the line for it."""
    target = f"sm_{its[0]}{its[1]}"
    other = other_build(build, environment)
    if other is not None:
        return f"Install PyTorch {other.torch} for CUDA {other.cuda}, which has it.", install_line(
            build, other
        )
    found = builds_with(its)
    if not found:
        return f"Install a build that has {target}: no official wheel has.", ""
    first, last = (f"PyTorch {one.torch} for CUDA {one.cuda}" for one in (found[0], found[-1]))
    says = f"Install a build that has {target} (the first official one is {first}, the last {last})"
    return f"{says}; the driver has to be new enough for it.", ""


def _said(environment: Environment, *, fits: bool) -> list[Problem]:
    """PyTorch's own message, where the versions are not told, or tell nothing wrong (`fits`)."""
    for quote in environment.errors:
        match = _SAID.search(quote.text)
        if match is None:
            continue
        if fits and not match[1]:
            return [_of_an_extension(quote)]
        target = f" (sm_{match[1]})" if match[1] else ""
        return [
            Problem(
                f"PyTorch says that this build has no code for the card{target}.",
                does="The first kernel fails, although torch.cuda.is_available() is True.",
                fix="Compare torch.cuda.get_arch_list() with torch.cuda.get_device_capability(), and install a build "
                "that has it.",
                subject="architecture",
                certainty=Certainty.CERTAIN if match[1] else Certainty.LIKELY,
                evidence=(quote,),
            )
        ]
    return []


def _of_an_extension(quote: Quote) -> Problem:
    return Problem(
        "A kernel has no code for the card, and PyTorch's build has: the kernel is an extension's (flash-attn, apex, "
        "bitsandbytes and the like).",
        does='The extension fails with "no kernel image is available for execution on the device".',
        fix="Build the extension for this card, or install a wheel of it that has its architecture.",
        subject="architecture",
        certainty=Certainty.LIKELY,
        evidence=(quote,),
    )
