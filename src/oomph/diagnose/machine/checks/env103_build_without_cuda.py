"""A PyTorch without CUDA on a machine with NVIDIA cards."""

from __future__ import annotations

from oomph.diagnose.machine.answers import answer
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.builds import Build, install_line, judged, other_build
from oomph.diagnose.machine.cards import labels, nvidia_cards
from oomph.diagnose.machine.model import Answer, Asked, Problem
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment
from oomph.evidence.model import Quote


class BuildWithoutCuda(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV103"
    cause = "no_cuda_build"
    name = "build-without-cuda"
    means = (
        "The machine has NVIDIA cards, and the installed PyTorch is a CPU build, or one for AMD's ROCm. It never uses "
        "the cards, whatever the driver."
    )
    decisive_evidence = 'torch.__version__ ends in "+cpu" or "+rocm...", or torch.version.cuda is None.'
    first_action = "Install a CUDA build."
    verify = "python -c 'import torch; print(torch.version.cuda)' prints a version."
    wrong_advice = (
        "Reinstalling the driver or the CUDA toolkit: neither makes a CPU build use a GPU. A plain `pip install torch` "
        "on Windows brings the CPU build."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        builds = judged(environment)
        cards = nvidia_cards(environment)
        without = [one for one in builds if one.without]
        if not without:
            have = [f"{one.name} is a CUDA build" for one in builds if one.cuda and not one.assumed]
            return answer([], have if cards or environment.drivers else [])
        seen = _nvidia(environment)
        if seen is None:
            if environment.cards or "cards" in environment.told:
                return answer([])
            return answer([], (), ["whether the machine has NVIDIA cards: nvidia-smi tells it"])
        with_cuda = [one for one in builds if not one.without]
        if with_cuda:
            return answer(
                [],
                (),
                [f"which is used, {with_cuda[0].name} or {without[0].name}: torch.__version__ tells it"],
            )
        return answer(_problem(environment, one, *seen) for one in without)


def _nvidia(environment: Environment) -> tuple[str, Quote] | None:
    cards = nvidia_cards(environment)
    if cards:
        name = cards[0].name or "an NVIDIA card"
        return f"{len(cards)} x {name}" if len(cards) > 1 else f"{name} ({labels(cards)})", cards[0].quote
    if environment.cards:
        return None
    if environment.driver is not None:
        return f"NVIDIA driver {environment.driver.value}", environment.driver.quote
    return next(((f"{one.gpus} GPUs asked for", one.quote) for one in environment.launches if one.gpus), None)


def _problem(environment: Environment, build: Build, what: str, quote: Quote) -> Problem:
    version = build.torch.version
    other = other_build(build, environment)
    sure = not build.torch.wanted and bool(environment.cards)
    return Problem(
        f"{build.name} cannot use the NVIDIA cards of this machine ({what}).",
        does="torch.cuda.is_available() is False; training runs on the CPU, or stops at the first .cuda().",
        fix="Install a CUDA build in its place.",
        paste=f"pip uninstall -y torch && {install_line(build, other)}" if other is not None else "",
        subject=f"PyTorch {version}".strip(),
        certainty=Certainty.CERTAIN if sure else Certainty.LIKELY,
        evidence=(build.torch.quote, quote),
    )
