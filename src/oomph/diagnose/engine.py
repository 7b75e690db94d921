"""Evidence to Diagnosis: incidents, the one to explain, its phase, the rules, the ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from oomph.diagnose.case import Case
from oomph.diagnose.clock import time_of
from oomph.diagnose.incidents import Group, group
from oomph.diagnose.model import (
    Diagnosis,
    Finding,
    Incident,
    Outcome,
    PhaseVerdict,
    RuledOut,
)
from oomph.diagnose.notes import notes_of
from oomph.diagnose.others import other_errors, other_phase
from oomph.diagnose.phases.verdict import phase_of
from oomph.diagnose.ranks import rank_verdict
from oomph.diagnose.recorded import apply
from oomph.diagnose.rules import all_rules
from oomph.diagnose.streams import steps_in_other_stream
from oomph.diagnose.summary import summary_of
from oomph.diagnose.survival import DEVICE_KINDS, first_cause, status_of
from oomph.evidence.model import Evidence, Kind, Position
from oomph.phases import Phase

if TYPE_CHECKING:
    from oomph.diagnose.recorded.model import Records
    from oomph.diagnose.snapshot.model import Inside

#: Facts about the job that reports show, in this order.
JOB_FACTS = (
    "model",
    "total_params",
    "trainable_params",
    "dtype",
    "mixed_precision",
    "quantization",
    "batch_size",
    "accumulation",
    "eval_batch_size",
    "sequence_length",
    "vocab_size",
    "optimizer",
    "checkpointing",
    "lora_rank",
    "framework",
    "launcher",
    "world_size",
    "zero_stage",
    "offload",
    "gpu_name",
    "torch_version",
    "cuda_version",
    "driver_version",
    "platform",
    "alloc_conf",
    "memory_fraction",
)


def diagnose(
    evidence: Evidence,
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    rank: int | None = None,
    insides: Mapping[Position, Inside] | None = None,
    records: Records | None = None,
) -> tuple[Diagnosis, Case | None]:
    """The diagnosis without advice, and the Case of the incident that it explains. `insides` are what memory
    snapshots show, by the position of the failure's print; `records` what run directories among the input recorded.

    `select` and `ignore` are code prefixes ("OOM2"): only selected rules run, ignored ones do not. With `rank`, that
    rank's failure is explained if it has one.
    """
    groups = group(evidence)
    cause = first_cause(groups)
    judged: list[tuple[Group, str, str]] = []
    dropped: list[str] = []
    for one in groups:
        status, why = _recorded_status(records, one) or status_of(evidence, one, cause)
        if status == "dropped":
            dropped.append(f"{one.lead.quote.source}:{one.lead.quote.line}: {why}")
        else:
            judged.append((one, status, why))
    wanted = rank if rank is not None or records is None else records.first
    chosen, outcome = _choose(evidence, judged, wanted)
    known = insides or {}
    cases = {id(one): _case(evidence, one, status, known, records) for one, status, _ in judged}
    _lend_phases(cases.values(), cases)
    incidents = [_incident(cases[id(one)], one, status, why) for one, status, why in judged]
    explained = None
    case = None
    if chosen is not None:
        case = cases[id(chosen)]
        explained = incidents[[id(one) for one, _, _ in judged].index(id(chosen))]
    findings, ruled_out = _apply(case, select, ignore) if case is not None else ((), ())
    if outcome is Outcome.NO_OOM and explained is not None:
        findings = tuple(finding for finding in findings if finding.cause == "not_an_oom")
    ranks = rank_verdict(evidence, incidents, explained)
    if explained is not None and explained.rank is None and len(incidents) == 1 and ranks.first is not None:
        explained = replace(explained, rank=ranks.first)
        incidents = [explained]
    others = other_errors(evidence, explained)
    phase = explained.phase if explained is not None else other_phase(evidence)
    notes = notes_of(evidence, case, dropped)
    if records is not None:
        ranks = apply.ranks_with(records, evidence, ranks)
        others = apply.errors_with(records, evidence, others)
        notes += apply.notes_with(records, case.recorded if case is not None else None)
        phase = phase if explained is not None else apply.phase_without_incident(records, phase)
    draft = Diagnosis(
        outcome=outcome,
        summary="",
        incident=explained,
        incidents=tuple(incidents),
        ranks=ranks,
        findings=findings,
        ruled_out=ruled_out,
        evidence=evidence,
        job=tuple(fact for name in JOB_FACTS if (fact := (case.fact(name) if case else evidence.fact(name)))),
        other_errors=others,
        notes=tuple(notes),
        phase=phase,
    )
    return replace(draft, summary=summary_of(draft)), case


def _choose(
    evidence: Evidence, judged: Sequence[tuple[Group, str, str]], rank: int | None
) -> tuple[Group | None, Outcome]:
    """The failure to explain: the first fatal one (of `rank`, if asked for); without one, the first that was caught."""
    fatal = [one for one, status, _ in judged if status == "fatal" and one.lead.kind is not Kind.NOT_MEMORY]
    if fatal:
        return _first_of(
            [one for one in fatal if one.rank == rank and rank is not None] or fatal, evidence
        ), Outcome.FAILED
    caught = [(one, why) for one, status, why in judged if status == "caught"]
    if caught:
        open_end = all("does not show what came after" in why for _, why in caught)
        mine = [one for one, _ in caught if one.rank == rank and rank is not None]
        return (mine or [caught[0][0]])[0], Outcome.FAILED if open_end else Outcome.RECOVERED
    for one, _, _ in judged:
        if one.lead.kind is Kind.NOT_MEMORY:
            return one, Outcome.NO_OOM
    return None, Outcome.NO_OOM


def _first_of(fatal: Sequence[Group], evidence: Evidence) -> Group:
    """The device's failures before the host's, those with figures before their echoes, then the earliest.

    Where all candidates have a timestamp the earliest wins (files are read in any order, and a file may be several that
    were put together), else the order of the input.
    """
    device = [one for one in fatal if one.lead.kind in DEVICE_KINDS]
    candidates = device or list(fatal)
    numbered = [one for one in device if one.lead.numbers]
    if numbered and candidates[0].lead.kind in (Kind.DISGUISED, Kind.DEVICE_OOM_BARE):
        candidates = numbered
    if len(candidates) > 1:
        times = [time_of(evidence, one.start) for one in candidates]
        known = [stamp for stamp in times if stamp is not None]
        if len(known) == len(times):
            return candidates[times.index(min(known))]
    return candidates[0]


def _lend_phases(cases: Iterable[Case], by_group: dict[int, Case]) -> None:
    """A message without a traceback of its own takes the phase of a twin: the same figures on another device."""
    known: dict[tuple[object, ...], dict[int | None, Case]] = {}
    for case in cases:
        if case.phase is not Phase.UNKNOWN and case.failure.kind is Kind.DEVICE_OOM:
            known.setdefault(_figures(case), {}).setdefault(case.failure.device, case)
    for key, case in list(by_group.items()):
        if case.phase is not Phase.UNKNOWN or case.group.traceback is not None or not case.failure.numbers:
            continue
        for device, twin in known.get(_figures(case), {}).items():
            if device != case.failure.device:
                verdict = replace(
                    twin.phase_verdict,
                    why=f"the same failure on GPU {twin.failure.device} has a traceback: {twin.phase_verdict.why}",
                )
                by_group[key] = replace(case, phase_verdict=verdict)
                break


def _figures(case: Case) -> tuple[object, ...]:
    return tuple(sorted(case.failure.numbers.items(), key=lambda item: item[0]))


def _recorded_status(records: Records | None, one: Group) -> tuple[str, str] | None:
    """How the records say that a failure ended, where they know it."""
    if records is None:
        return None
    said = [apply.status_of(records, failure.position) for failure in one.prints]
    return next((found for found in said if found is not None), None)


def _case(
    evidence: Evidence, one: Group, status: str, insides: Mapping[Position, Inside], records: Records | None
) -> Case:
    verdict = phase_of(evidence, one.lead, one.traceback, one.start)
    if verdict.first_step is None and status == "fatal" and steps_in_other_stream(evidence, one.start):
        verdict = replace(verdict, first_step=False)
    found = [insides[failure.position] for failure in one.prints if failure.position in insides]
    inside = found[0] if found else None
    if inside is not None:
        verdict = _seen_inside(verdict, inside)
    told = records.failures if records is not None else {}
    recorded = next((told[failure.position] for failure in one.prints if failure.position in told), None)
    if recorded is not None:
        verdict = apply.phase_with(verdict, recorded)
    return Case(evidence, one, verdict, inside, recorded)


def _seen_inside(verdict: PhaseVerdict, inside: Inside) -> PhaseVerdict:
    """The phase as the snapshot tells it, where nothing else does; and whether it was the first
    step, where the trace shows an earlier one."""
    moment = inside.device.moment
    if inside.failure is None or moment.position != inside.failure.position:
        return verdict
    if verdict.first_step is None and moment.step:
        verdict = replace(verdict, first_step=False)
    if verdict.phase is not Phase.UNKNOWN or moment.phase is Phase.UNKNOWN:
        return verdict
    if str(moment.phase_how) == "frames":
        why = "the memory snapshot's stack of the request, whose frames are not all Python"
    else:
        why = "what the memory snapshot shows of the requests around this one, which has no stack of its own"
    return replace(verdict, phase=moment.phase, evidence="snapshot", why=why)


def _incident(case: Case, one: Group, status: str, why: str) -> Incident:
    lead = one.lead
    return Incident(
        failure=lead,
        status=status,
        rank=one.rank,
        phase=case.phase_verdict,
        ledger=case.ledger,
        traceback=one.traceback,
        copies=tuple(failure for failure in one.prints if failure is not lead),
        why_status=why,
    )


def _apply(
    case: Case, select: Sequence[str], ignore: Sequence[str]
) -> tuple[tuple[Finding, ...], tuple[RuledOut, ...]]:
    findings: list[Finding] = []
    ruled_out: list[RuledOut] = []
    for rule in all_rules():
        if select and not rule.code.startswith(tuple(select)):
            continue
        if ignore and rule.code.startswith(tuple(ignore)):
            continue
        answer = rule.check(case)
        if isinstance(answer, RuledOut):
            ruled_out.append(answer)
        elif answer is not None:
            findings.append(rule.finding(case, answer))
    findings.sort(key=lambda finding: -finding.score)
    return tuple(findings), tuple(ruled_out)
