"""What the records change in a diagnosis: the phase, whether it was survived, who died of whom, what to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from oomph.diagnose.model import PhaseVerdict, RankVerdict
from oomph.diagnose.recorded.gpus import neighbours_that_came
from oomph.diagnose.recorded.model import Recorded, Records
from oomph.evidence.model import Evidence, Position, Quote
from oomph.evidence.run.data import Doing, Outcome, RankData, RunData
from oomph.evidence.run.documents import error_words
from oomph.evidence.run.facts import shapes
from oomph.evidence.run.host import host_use
from oomph.phases import Phase

#: A phase in which others occur: a traceback that names the inner one does not contradict it.
_AROUND: Mapping[Phase, frozenset[Phase]] = {
    Phase.EVAL: frozenset({Phase.FORWARD, Phase.GENERATE}),
    Phase.GENERATE: frozenset({Phase.FORWARD}),
    Phase.SAVE: frozenset({Phase.LOAD}),
    Phase.LOAD: frozenset({Phase.INIT}),
    Phase.INIT: frozenset({Phase.LOAD}),
}
_MOST_NOTES = 12
_MOST_ERRORS = 4


def status_of(records: Records, position: Position) -> tuple[str, str] | None:
    """("caught" | "fatal", why) of a failure that was recorded; None where nothing was recorded of it."""
    recorded = records.failures.get(position)
    if recorded is None or recorded.oom is None:
        return None
    if recorded.caught:
        return "caught", "the rank's records go on after it"
    return "fatal", "it is the rank's last record of work"


def doing_of(recorded: Recorded) -> Doing | None:
    """What the rank was doing when the failure came."""
    oom = recorded.oom
    if oom is None:
        return recorded.rank.doing
    if oom.phase is Phase.UNKNOWN:
        return Doing(oom.phase, oom.step, True, "no phase was open when the request failed", oom.where)
    return Doing(oom.phase, oom.step, True, "recorded when the request failed", oom.where)


def phase_with(verdict: PhaseVerdict, recorded: Recorded) -> PhaseVerdict:
    """The verdict by the records, where they know; a contradiction with what the log shows is said."""
    rank = recorded.rank
    first_step = verdict.first_step
    if rank.steps_completed or rank.phases:
        first_step = rank.steps_completed == 0
    doing = doing_of(recorded)
    if doing is None or doing.phase is Phase.UNKNOWN:
        if doing is None:
            return replace(verdict, first_step=first_step)
        why = f"by the rank's records, {doing.why}"
        if verdict.evidence == "snapshot" and doing.certain and rank.summaries:
            # What a snapshot shows of the requests around it is less than the rank's own word.
            why += f"; the memory snapshot alone looks like {verdict.phase}"
            return replace(verdict, phase=Phase.UNKNOWN, evidence="recorded", why=why, first_step=first_step)
        if verdict.phase is not Phase.UNKNOWN:
            why = verdict.why
        return replace(verdict, first_step=first_step, why=why)
    step = "before the first step" if doing.step < 0 else f"in step {doing.step}"
    where = f" ({doing.where})" if doing.where else ""
    why = f"{step}{where}: {doing.why}"
    logged = verdict.phase
    agrees = logged in (Phase.UNKNOWN, doing.phase) or logged in _AROUND.get(doing.phase, frozenset())
    if not doing.certain:
        if logged is not Phase.UNKNOWN:
            return replace(verdict, first_step=first_step)
        why += ", so it is likely and not recorded"
    elif not agrees:
        why += f". The log contradicts it ({logged}: {verdict.why}); the record is believed"
    return replace(
        verdict,
        phase=doing.phase,
        evidence="recorded",
        why=why,
        first_step=first_step,
        frame=verdict.frame if agrees else None,
        quote=verdict.quote,
        recompute=verdict.recompute and logged is doing.phase,
    )


def ranks_with(records: Records, evidence: Evidence, verdict: RankVerdict) -> RankVerdict:
    """Who failed first and who died of it, by the records where they know more than the log."""
    for run in records.runs:
        first = run.first_failure
        if first is None:
            continue
        failed = dict.fromkeys(verdict.failed)
        for rank in run.ranks.values():
            if rank.outcome is Outcome.OOM:
                failed.setdefault(rank.rank, None)
        consequences = {
            **{rank: why for rank, why in verdict.consequences.items() if rank not in failed},
            **{rank: _as_victim(run.ranks[rank]) for rank in first.victims},
            **{
                rank.rank: _still(rank)
                for rank in run.ranks.values()
                if rank.outcome in (Outcome.RUNNING, Outcome.UNKNOWN)
            },
        }
        one = first.ranks[0] if len(first.ranks) == 1 else None
        launcher = {found.rank for found in evidence.exits if found.root}
        if one is None and verdict.first in first.ranks and verdict.first in launcher:
            one, how = verdict.first, verdict.how  # the launcher knows more
        else:
            how = f"by the records, {first.why}"
        return RankVerdict(
            one,
            how,
            tuple(sorted(failed)),
            dict(sorted((rank, why) for rank, why in consequences.items() if rank not in failed)),
            verdict.notes,
        )
    return verdict


def _in_phase(rank: RankData) -> str:
    doing = rank.doing
    if doing is None or doing.phase is Phase.UNKNOWN:
        return ""
    step = "before the first step" if doing.step < 0 else f"of step {doing.step}"
    return f" in {doing.phase} {step}" + ("" if doing.certain else " (likely)")


def _as_victim(rank: RankData) -> str:
    if rank.outcome is Outcome.EXCEPTION:
        return (
            f"ended with {error_words(rank.end.error if rank.end else '')}{_in_phase(rank)}, by its records"
        )
    if rank.outcome is Outcome.INTERRUPTED:
        return f"was interrupted{_in_phase(rank)}, by its records"
    return f"was stopped{_in_phase(rank)} and left no last record"


def _still(rank: RankData) -> str:
    if rank.outcome is Outcome.RUNNING:
        return f"is still running{_in_phase(rank)}: it waits, or does not know yet"
    return f"has records that do not end{_in_phase(rank)}; whether it still runs is not known"


def notes_with(records: Records, explained: Recorded | None) -> list[str]:
    """What the records say beside the failure itself, a sentence each."""
    notes: list[str] = []
    for run in records.runs:
        notes += _about(run)
    if explained is not None and explained.oom is not None:
        if explained.oom.batch:
            notes.append(f"Batch of the failed step, as recorded: {shapes(explained.oom.batch)}.")
        notes += [f"Not recorded when the request failed: {text}." for text in explained.oom.missing[:6]]
    elif explained is not None:
        use = host_use(explained.run, explained.rank)
        if use is not None:
            notes.append(
                f"Host memory when it was last read before rank {explained.rank.rank} ended: {use.says}."
            )
    return notes


def _about(run: RunData) -> list[str]:
    notes: list[str] = []
    counts: dict[Outcome, list[int]] = {}
    for one in run.ranks.values():
        counts.setdefault(one.outcome, []).append(one.rank)
    if run.missing:
        counts[Outcome.MISSING] = list(run.missing)
    told = "; ".join(f"{outcome}: {_ranks(ranks)}" for outcome, ranks in counts.items())
    if told:
        notes.append(f"Ends by the records of {run.path}: {told}.")
    if not run.ranks:
        notes.append(
            f"No rank recorded itself in {run.path}: what follows is from what was printed. `oomph.record()` in the "
            "script records phases."
        )
    if run.end is not None and run.end.exit_code:
        signal = f" (signal {run.end.signal})" if run.end.signal is not None else ""
        notes.append(f"The command ended with exit code {run.end.exit_code}{signal}.")
    restarted = [one.rank for one in run.ranks.values() if len(one.attempts) > 1]
    if restarted:
        notes.append(f"Restarted, and judged by the last attempt: {_ranks(restarted)}.")
    notes += neighbours_that_came(run)
    said: dict[str, list[int]] = {}
    for one in run.ranks.values():
        for note in one.notes:
            if not note.code.startswith("watchdog."):
                said.setdefault(note.text, []).append(one.rank)
    for text, ranks in list(said.items())[:_MOST_NOTES]:
        notes.append(f"Noted during the run by {_ranks(sorted(set(ranks)))}: {text}")
    if len(said) > _MOST_NOTES:
        notes.append(f"{len(said) - _MOST_NOTES} more notes are in the records.")
    return notes


def _ranks(ranks: list[int]) -> str:
    """Numbers of ranks in words: "ranks 0-2, 5"."""
    parts: list[str] = []
    start = previous = ranks[0]
    for rank in [*ranks[1:], -1]:
        if rank == previous + 1:
            previous = rank
            continue
        parts.append(str(start) if start == previous else f"{start}-{previous}")
        start = previous = rank
    return f"rank {parts[0]}" if len(ranks) == 1 else f"ranks {', '.join(parts)}"


def errors_with(records: Records, evidence: Evidence, printed: tuple[Quote, ...]) -> tuple[Quote, ...]:
    """Errors that are not memory: those of the log, and those that only the records have, the first cause first."""
    quotes = list(printed)
    shown = " ".join(quote.text for quote in printed)
    for number, run in enumerate(records.runs):
        first = run.first_failure
        for rank in first.ranks if first is not None else ():
            one = run.ranks[rank]
            place = records.documents.get((number, rank))
            if one.outcome is not Outcome.EXCEPTION or place is None or one.end is None:
                continue
            if one.end.error.split("\n", 1)[0][:80] in shown:
                continue
            lines = evidence.documents[place].lines
            at = next((i for i, line in enumerate(lines) if line.text.startswith("ended: ")), len(lines) - 1)
            quotes.append(evidence.documents[place].quote(at))
    return tuple(quotes[: len(printed) + _MOST_ERRORS])


def phase_without_incident(records: Records, verdict: PhaseVerdict | None) -> PhaseVerdict | None:
    """The phase of the error that ended a run which did not fail for a lack of memory."""
    first = records.first
    for run in records.runs:
        if first is not None and first in run.ranks:
            recorded = Recorded(run, run.ranks[first], 0)
            start = verdict or PhaseVerdict(Phase.UNKNOWN, "none", "nothing was printed of it")
            return phase_with(start, recorded)
    return verdict
