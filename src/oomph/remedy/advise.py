"""Findings to advice: one change first, what comes after it, what not to do, and what to collect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from oomph.diagnose.case import Case
from oomph.diagnose.model import Advice, Certainty, Finding, Incident, Step
from oomph.diagnose.rules import rule_for
from oomph.evidence.model import Kind
from oomph.phases import Phase
from oomph.remedy.actions import Action, action_for
from oomph.remedy.actions.collect_context import CollectContext
from oomph.remedy.avoid import avoid
from oomph.remedy.words import must_free

if TYPE_CHECKING:
    from oomph.remedy.predicted import Beside

#: Causes that no training batch size changes.
NOT_THE_BATCH = frozenset(
    {
        "static_state_too_big",
        "other_process",
        "sibling_ranks_on_one_gpu",
        "colocated_engine",
        "optimizer_memory",
        "resume_checkpoint",
        "checkpoint_save_gather",
        "eval_generation",
        "growth_over_steps",
        "outside_grew",
        "other_pool_or_stream",
        "cap_or_driver_limit",
        "pinned_host_memory",
        "managed_memory_limit",
        "host_ram",
        "shm",
        "not_an_oom",
    }
)
#: The order among these is fixed: the batch down to 1 first, the length of the sequences last.
_IN_THIS_ORDER = ("micro-batch", "checkpointing", "shorter-sequence")
_MOST_NEXT = 3
_MOST_COLLECTED = 2
#: A second cause of the same certainty is worth a step when it scores about as high as the first.
_CLOSE = 0.3
_HOST = (Kind.HOST_OOM, Kind.KILLED, Kind.SHM)
_DEVICE = (Kind.DEVICE_OOM, Kind.DEVICE_OOM_BARE, Kind.DISGUISED, Kind.NCCL_OOM)
_OPEN_END = "does not show what came after"


def advise(
    case: Case,
    findings: Sequence[Finding],
    incidents: Sequence[Incident] = (),
    beside: Beside | None = None,
) -> Advice:
    """The advice for `case`, whose findings are ranked best first.

    The first step is the first action of the top finding that applies; those behind it come next. `incidents` are all
    of the input: when the job survived every one, the advice is about keeping them from coming back. `beside`, where
    the job is known, says what each step is predicted to free; one that frees nothing there does not come first.
    """
    top = findings[0] if findings else _nothing_found(case)
    chosen = list(_applicable(case, top))
    if beside is not None:
        chosen = beside.ordered(chosen)
    first = chosen[0].step(case, top) if chosen else CollectContext().step(case, top)
    if _recovered(incidents):
        first = replace(
            first, text=f"The job survived this failure; the change keeps it from coming back. {first.text}"
        )
    then = tuple(_next_steps(case, findings, chosen[1:], first))
    advice = Advice(first=first, then=then, avoid=avoid(case, top), collect=tuple(_collect(case, top, first)))
    return advice if beside is None else beside.told(advice)


def _nothing_found(case: Case) -> Finding:
    return Finding("", "", "", Certainty.POSSIBLE, "", case.phase, case.rank)


def _codes(finding: Finding) -> list[str]:
    """The finding's action codes, then its rule's; the training order kept, batch changes left out where they are
    beside the point."""
    rule = rule_for(finding.code) if finding.code else None
    codes = list(dict.fromkeys((*finding.actions, *(rule.actions if rule is not None else ()))))
    if finding.cause in NOT_THE_BATCH:
        codes = [code for code in codes if code != "micro-batch"]
    places = [index for index, code in enumerate(codes) if code in _IN_THIS_ORDER]
    ordered = sorted((codes[index] for index in places), key=_IN_THIS_ORDER.index)
    for index, code in zip(places, ordered, strict=True):
        codes[index] = code
    return codes


def _applicable(case: Case, finding: Finding) -> Iterator[Action]:
    for code in _codes(finding):
        action = action_for(code)
        if action is not None and action.applies(case):
            yield action


def _next_steps(
    case: Case, findings: Sequence[Finding], rest: Sequence[Action], first: Step
) -> Iterator[Step]:
    """What to change next, without the outcomes; an equally certain second cause adds its first action."""
    used = {first.code}
    steps = []
    for action in rest:
        if action.code not in used and not action.code.startswith("collect-"):
            used.add(action.code)
            steps.append(_brief(case, action.step(case, findings[0])))
    steps = steps[:_MOST_NEXT]
    if len(findings) > 1 and _close(findings[0], findings[1]) and len(steps) < _MOST_NEXT:
        other = findings[1]
        for action in _applicable(case, other):
            barred = action.code == "micro-batch" and findings[0].cause in NOT_THE_BATCH
            if not barred and action.code not in used and not action.code.startswith("collect-"):
                steps.append(_brief(case, action.step(case, other)))
                break
    yield from steps


def _close(top: Finding, other: Finding) -> bool:
    return other.certainty is top.certainty and top.score - other.score <= _CLOSE


def _brief(case: Case, step: Step) -> Step:
    """A later step: without its outcomes, and without how much is missing, which the first step says."""
    return replace(step, text=step.text.removeprefix(must_free(case)).strip(), outcomes=())


def _collect(case: Case, finding: Finding, first: Step) -> Iterator[Step]:
    """Commands that get what the evidence lacks; nothing when it is enough."""
    count = 0
    for code in dict.fromkeys(_missing(case, finding)):
        action = action_for(code)
        if action is None or code == first.code or not action.applies(case):
            continue
        step = action.step(case, finding)
        if step.paste == first.paste:
            continue
        yield step
        count += 1
        if count == _MOST_COLLECTED:
            return


def _missing(case: Case, finding: Finding) -> Iterator[str]:
    """Codes of what to collect, the most telling first."""
    if case.kind in _HOST:
        if finding.certainty is not Certainty.CERTAIN:
            yield "collect-kernel-log"
        if finding.certainty is Certainty.POSSIBLE:
            yield "collect-context"
        return
    if finding.certainty is Certainty.POSSIBLE:
        yield from (code for code in finding.actions if code.startswith("collect-"))
    if case.kind in _DEVICE and case.phase is Phase.UNKNOWN:
        yield "collect-context"
    if case.kind in _DEVICE and case.ledger.segment_bytes is None and case.kind is not Kind.NCCL_OOM:
        yield "collect-smi"
    if finding.certainty is Certainty.POSSIBLE and case.kind in _DEVICE:
        yield "collect-snapshot"


def _recovered(incidents: Sequence[Incident]) -> bool:
    """True when every failure was caught, and one at least is known to have been survived."""
    if not incidents or any(one.status != "caught" for one in incidents):
        return False
    return any(_OPEN_END not in one.why_status for one in incidents)
