"""Allocator settings that PyTorch takes and does not use."""

from __future__ import annotations

from oomph.diagnose.machine.alloc_settings import CUDA_NAME, GENERIC_NAME, options_of, parsed, read_by_torch
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.diagnose.machine.settings import export, in_effect, torch_version
from oomph.evidence.environment.model import Environment, Variable
from oomph.hardware.alloc_conf import GENERIC_SINCE, alloc_options


class AllocConfIgnored(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV412"
    cause = "alloc_conf_ignored"
    name = "alloc-conf-ignored"
    means = (
        "A setting that PyTorch accepts can still do nothing: backend:cudaMallocAsync does not use the options of the "
        "native allocator, expandable segments do not exist on Windows, WSL2 and Jetson, PyTorch before 2.9 does not "
        "read PYTORCH_ALLOC_CONF, and some options work only together with another."
    )
    decisive_evidence = "The option, with the backend, platform or version that does not use it."
    first_action = "Remove what is ignored, or what makes it be ignored."
    verify = "torch.cuda.memory._snapshot()['allocator_settings'] shows what is in effect (from 2.4 on)."
    wrong_advice = "Adding more options to a line that has no effect."

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        early = _before_its_name(environment)
        read = read_by_torch(environment)
        if read is None:
            return early or NotHere()
        text = read.variable.value
        if text is None:
            return early or CouldNotTell(f"the text does not say what {read.variable.name} becomes")
        settings = parsed(text, read.torch)
        if settings is None:
            return early or NotHere()  # refused: ENV411
        options = options_of(text)
        problems = [*early]
        if settings.backend == "cudaMallocAsync":
            lost = [
                name for name in options if name in alloc_options() and alloc_options()[name].async_ignores
            ]
            if lost:
                problems.append(_of_backend(read.variable, lost))
        elif settings.expandable_segments:
            where = _without_expandable(environment)
            if where:
                problems.append(_of_platform(read.variable, where, options))
        for name in options:
            partner = alloc_options()[name].needs if name in alloc_options() else ""
            if partner and options.get(partner) in (None, "False"):
                problems.append(_without_partner(read.variable, name, partner))
        if problems:
            return tuple(problems)
        return (
            Clear(f"{read.variable.name}={text}: PyTorch uses every option of it") if options else NotHere()
        )


def _before_its_name(environment: Environment) -> tuple[Problem, ...]:
    torch = torch_version(environment)
    one = next((each for each in in_effect(environment, GENERIC_NAME) if each.value), None)
    if one is None or torch is None or torch >= GENERIC_SINCE:
        return ()
    return (
        _problem(
            one,
            f"PyTorch {torch[0]}.{torch[1]} does not read {GENERIC_NAME}: it came with 2.9.",
            "Nothing: the allocator keeps its defaults.",
            "Use the old name.",
            export(CUDA_NAME, one.value or ""),
        ),
    )


def _without_expandable(environment: Environment) -> str:
    if environment.wsl is not None and environment.wsl.value:
        return "WSL2"
    system = environment.system.value.lower() if environment.system is not None else ""
    if "windows" in system:
        return "Windows"
    if any(card.driver_model.upper() in ("WDDM", "TCC", "MCDM") for card in environment.cards):
        return "Windows"
    names = " ".join(card.name for card in environment.cards).lower()
    return "Jetson" if "tegra" in system or "orin" in names or "jetson" in names else ""


def _of_backend(one: Variable, lost: list[str]) -> Problem:
    return _problem(
        one,
        f"backend:cudaMallocAsync ignores {', '.join(lost)}.",
        "The driver's pool decides; PyTorch warns once for some of them and says nothing of the others.",
        "Choose: the native backend with these options, or cudaMallocAsync without.",
        export(one.name, "backend:cudaMallocAsync"),
    )


def _of_platform(one: Variable, where: str, options: dict[str, str]) -> Problem:
    rest = ",".join(
        f"{name}:{value}"
        for name, value in options.items()
        if name != "expandable_segments" and "[" not in value
    )
    return _problem(
        one,
        f"expandable_segments:True has no effect on {where}.",
        "PyTorch warns `expandable_segments not supported on this platform` and uses ordinary segments; some versions "
        "fail instead.",
        "Remove it there; against fragmentation, try max_split_size_mb and measure.",
        export(one.name, rest) if rest else f"unset {one.name}",
    )


def _without_partner(one: Variable, name: str, partner: str) -> Problem:
    return _problem(
        one,
        f"{name} does nothing without {partner}.",
        f"{alloc_options()[name].effect[0].upper()}{alloc_options()[name].effect[1:]}: only where {partner} is set.",
        f"Set {partner} as well, or remove {name}.",
        f"unset {one.name}",
    )


def _problem(one: Variable, says: str, does: str, fix: str, paste: str) -> Problem:
    return Problem(
        says=says,
        does=does,
        fix=fix,
        paste=paste,
        subject=one.name,
        severity=Severity.WARNING,
        evidence=(one.quote,),
    )
