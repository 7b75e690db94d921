"""What the log says about the job: settings, sizes, versions, phases, progress. One module per kind of printer."""

from __future__ import annotations

from oomph.evidence.facts import (
    alloc_conf,
    configs,
    distributed,
    environment,
    hf_trainer,
    host,
    parameters,
    phases,
    phrases,
    pids,
    progress,
    success,
)
from oomph.evidence.facts.scan import Scanner
from oomph.evidence.model import Document, Fact

__all__ = ["parse"]

_SCANNER = Scanner(
    (
        hf_trainer.PRINTER,
        configs.PRINTER,
        phrases.PRINTER,
        parameters.PRINTER,
        environment.PRINTER,
        alloc_conf.PRINTER,
        distributed.PRINTER,
        pids.PRINTER,
        progress.PRINTER,
        phases.PRINTER,
        success.PRINTER,
        host.PRINTER,
    )
)
#: Every occurrence of these counts.
_EVENTS = frozenset({"progress", "phase_line", "success", "resume"})
#: Of these each value counts once; of all others only a change of the value does.
_MEMBERS = frozenset({"rank_pid", "engine_pid", "framework", "launcher", "platform", "offload"})


def parse(document: Document) -> list[Fact]:
    """All facts of one document in the order of its lines. Never raises on any text.

    A setting that is echoed again with the same value (by every rank, by two printers of one line) is kept once,
    where it stood first; after another value it counts again, so that the last of a name is the one in force.
    """
    found = [*pids.actors(document), *_SCANNER.run(document)]
    found.sort(key=lambda fact: fact.position)
    kept: list[Fact] = []
    latest: dict[str, str] = {}
    members: set[tuple[str, str, int | None]] = set()
    here: set[tuple[str, str, int | None]] = set()
    line = -1
    for fact in found:
        if fact.name in _EVENTS or fact.name in _MEMBERS:
            if fact.position.line != line:
                line = fact.position.line
                here.clear()
            seen = here if fact.name in _EVENTS else members
            key = (fact.name, fact.value, fact.rank)
            if key in seen:
                continue
            seen.add(key)
        elif latest.get(fact.name) == fact.value:
            continue
        else:
            latest[fact.name] = fact.value
        kept.append(fact)
    return kept
