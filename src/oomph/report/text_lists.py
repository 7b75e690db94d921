"""Lists and tables of the text report: ranks, incidents, processes, facts about the job."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.diagnose.model import Diagnosis, Incident
from oomph.evidence.model import Fact
from oomph.report.citations import Citations
from oomph.report.clean import cut, flat
from oomph.report.layout import table, wrap
from oomph.report.words import Places, asked_bytes, fact_words, plural, ranges
from oomph.units import format_bytes

#: Processes and reasons that are listed before "and N more".
_SHOWN = 8
#: Characters of a fact's value.
_VALUE = 300


def rank_lines(diagnosis: Diagnosis, width: int) -> list[str]:
    """Who failed first and how that is known, who had failures of their own, who died of it."""
    ranks = diagnosis.ranks
    lines: list[str] = []
    if ranks.first is not None:
        lines += wrap(f"rank {ranks.first} failed first: {flat(ranks.how)}", width, "  ")
    elif ranks.failed or ranks.consequences:
        lines += wrap(f"who failed first is unknown: {flat(ranks.how)}", width, "  ")
    if len(ranks.failed) > 1:
        lines += wrap(f"{_ranks(ranks.failed)} had a memory failure of their own", width, "  ")
    for reason, numbers in _by_reason(diagnosis)[:_SHOWN]:
        lines += wrap(f"{_ranks(numbers)} died of it: {reason}", width, "  ")
    more = len(_by_reason(diagnosis)) - _SHOWN
    if more > 0:
        lines += wrap(f"and for {plural(more, 'other reason')}", width, "  ")
    for note in ranks.notes:
        lines += wrap(flat(note), width, "  - ")
    return lines


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'' if len(numbers) == 1 else 's'} {ranges(numbers)}"


def _by_reason(diagnosis: Diagnosis) -> list[tuple[str, list[int]]]:
    reasons: dict[str, list[int]] = {}
    for rank, reason in diagnosis.ranks.consequences.items():
        reasons.setdefault(flat(reason), []).append(rank)
    return list(reasons.items())


def incident_table(
    incidents: Sequence[Incident], width: int, citations: Citations, places: Places
) -> list[str]:
    """One line per incident: rank, device, phase, status, what was asked for, what was free, where it is printed."""
    rows: list[tuple[str, ...]] = [("#", "rank", "device", "phase", "status", "asked", "free", "printed at")]
    for number, incident in enumerate(incidents, 1):
        asked = asked_bytes(incident.ledger)
        free = incident.ledger.free_bytes
        rows.append(
            (
                str(number),
                "?" if incident.rank is None else str(incident.rank),
                "?" if incident.failure.device is None else str(incident.failure.device),
                str(incident.phase.phase),
                incident.status,
                "?" if asked is None else format_bytes(asked[0]),
                "?" if free is None else format_bytes(free),
                places(incident.failure.quote) + citations.mark([incident.failure.quote]),
            )
        )
    return table(rows, width)


def process_words(incident: Incident) -> str:
    """The processes on the device as the message lists them; "" when it lists none."""
    processes = incident.failure.processes
    if not processes:
        return ""
    told = [
        f"{process.pid} "
        + ("(its use is not visible)" if process.used is None else f"with {format_bytes(process.used.bytes)}")
        for process in processes[:_SHOWN]
    ]
    more = len(processes) - _SHOWN
    told += [f"{more:,} more"] if more > 0 else []
    return f"The message lists these processes on the device: {', '.join(told)}."


def job_lines(facts: Sequence[Fact], width: int, citations: Citations) -> list[str]:
    """Name and value of each fact that was used."""
    rows = []
    for fact in facts:
        name, value = fact_words(fact.name, fact.value)
        rows.append((flat(name), cut(value, _VALUE) + citations.mark([fact.quote])))
    return table(rows, width)
