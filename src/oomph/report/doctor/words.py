"""The words that the reports of a checkup share."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.machine.model import CheckFinding, Checkup, Severity
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Card, Environment
from oomph.evidence.model import Quote
from oomph.report.words import plural
from oomph.units import format_bytes

#: What files of `--script` are taken for: they describe no machine.
_SCRIPTS = frozenset({"Python script", "notebook", "configuration"})


def headline(checkup: Checkup) -> str:
    """One sentence: how much is wrong, or that nothing is, and how much could not be told."""
    wrong = [one for one in checkup.findings if one.problem.severity is not Severity.NOTE]
    if wrong:
        counts = [
            plural(number, word)
            for word, number in (
                ("error", _count(wrong, Severity.ERROR)),
                ("warning", _count(wrong, Severity.WARNING)),
            )
            if number
        ]
        return f"{' and '.join(counts)}{': ' if len(wrong) == 1 else ', first '}{_first(wrong[0])}"
    untold = len(checkup.untold)
    blind = (
        "; no GPU could be read"
        if checkup.environment.live and "cards" in checkup.environment.missing
        else ""
    )
    if not checkup.clear and not checkup.findings:
        if untold:
            return f"Nothing could be told: {plural(untold, 'check')} had too little to go on{blind}"
        return "Nothing was checked: what was read has no subject of a check"
    said = f", {plural(untold, 'check')} could not be made" if untold else ""
    return f"Nothing wrong was found: {plural(len(checkup.clear), 'check')} in order{said}{blind}"


def _first(finding: CheckFinding) -> str:
    name = f"{finding.code} {finding.name}"
    return f"{name} ({finding.problem.subject})" if finding.problem.subject else name


def _count(findings: Sequence[CheckFinding], severity: Severity) -> int:
    return sum(one.problem.severity is severity for one in findings)


def title(finding: CheckFinding) -> str:
    """As "ENV203 error, likely: ecc-errors (GPU 3)"; certainty is said where it is less than certain."""
    problem = finding.problem
    certainty = "" if problem.certainty is Certainty.CERTAIN else f", {problem.certainty.value}"
    subject = f" ({problem.subject})" if problem.subject else ""
    return f"{finding.code} {problem.severity.value}{certainty}: {finding.name}{subject}"


def place(quote: Quote, folder: str = "") -> str:
    """Where a quote stands: "nvidia-smi.txt:12", and without a line where there is no file; `folder` is left out."""
    name = quote.source.removeprefix(folder)
    return f"{name}:{quote.line}" if quote.line else name


def common_folder(checkup: Checkup) -> str:
    """The folder, with a slash at its end, that all of several files about a machine are in; "" where they share none.
    A script's name stays whole: people open it."""
    environment = checkup.environment
    names = [name for name, _ in (*environment.sources, *environment.passed_over)]
    if environment.live or len(set(names)) < 2 or any(kind in _SCRIPTS for _, kind in environment.sources):
        return ""
    folders = [name.rpartition("/")[0].split("/") for name in names]
    shared = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return "/".join(shared) + "/" if any(shared) else ""


def machine_words(environment: Environment, *, named: bool = True) -> str:
    """What machine it is, in one sentence, from what was told of it; without its name where that is private."""
    whose = "This machine" if environment.live else "The machine"
    if named and environment.hostname:
        whose += f" ({environment.hostname.value})"
    parts = [
        environment.machine_type.value if environment.machine_type else "",
        *_cards(environment.cards),
        f"driver {environment.driver.value}" if environment.driver else "",
        *[_torch(build.version, build.local, build.cuda) for build in environment.torch[:2]],
        _container(environment),
    ]
    told = [part for part in parts if part]
    if not told and all(kind in _SCRIPTS for _, kind in environment.sources):
        return ""
    return f"{whose}: {', '.join(told)}." if told else f"{whose}: nothing is told of its GPUs or its driver."


def _cards(cards: Sequence[Card]) -> list[str]:
    """As "8 x NVIDIA A100-SXM4-80GB (80.00 GiB)", for each kind, in order."""
    kinds: dict[tuple[str, int | None], int] = {}
    for card in cards:
        kinds[card.name, card.total_bytes] = kinds.get((card.name, card.total_bytes), 0) + 1
    return [
        f"{count} x {name or 'GPU'}{f' ({format_bytes(size)})' if size else ''}"
        for (name, size), count in kinds.items()
    ]


def _torch(version: str, local: str, cuda: str | None) -> str:
    if not version:
        return ""
    if cuda:
        return f"PyTorch {version} (CUDA {cuda})"
    return f"PyTorch {version}{f'+{local}' if local else ''}{' (without CUDA)' if cuda is None and not local else ''}"


def _container(environment: Environment) -> str:
    if environment.wsl is not None and environment.wsl.value:
        return "WSL2"
    return f"in a container ({environment.container.value})" if environment.container else ""


def read_words(checkup: Checkup, folder: str = "") -> list[str]:
    """What was read, each source once with what it was taken for; below `folder` without it."""
    kinds: dict[str, list[str]] = {}
    for source, kind in checkup.environment.sources:
        held = kinds.setdefault(source.removeprefix(folder), [])
        if kind not in held and kind != source:
            held.append(kind)
    return [f"{source} ({', '.join(held)})" if held else source for source, held in kinds.items()]


#: Fields without which much of a machine is not known, as people call them.
_WEIGHTY = {
    "cards": "GPUs",
    "drivers": "driver",
    "torch": "PyTorch",
    "variables": "variables",
    "xids": "Xid events",
    "interfaces": "interfaces",
}


def missing_rows(checkup: Checkup, *, everything: bool) -> list[tuple[str, str]]:
    """What of a machine could not be read, and why; without `everything`, only what much depends on."""
    return [
        (_WEIGHTY.get(name, name), why)
        for name, why in checkup.environment.missing.items()
        if everything or name in _WEIGHTY
    ]


def passed_over_words(checkup: Checkup, folder: str = "") -> list[str]:
    """What told nothing, each with the reason."""
    return [f"{source.removeprefix(folder)}: {reason}" for source, reason in checkup.environment.passed_over]
