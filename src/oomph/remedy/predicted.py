"""What the steps of an advice are predicted to free where the job failed, and which of them comes first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from oomph.diagnose.case import Case
from oomph.diagnose.model import Advice, Step
from oomph.diagnose.planned import Agreement, JobField, PlannedJob, PredictedSaving
from oomph.errors import OomphError
from oomph.job.model import Job
from oomph.phases import Phase
from oomph.predict.model import PhasePeak, Plan
from oomph.predict.plan import plan
from oomph.remedy.actions import Action
from oomph.remedy.agree import agreement, room_bytes
from oomph.remedy.changes import Change, all_changes, by_code
from oomph.remedy.log_job import Found
from oomph.units import format_bytes

#: What changes reserved memory alone, or is planned so already (docs/remedies.md): that the plan has the same allocated
#: bytes with and without it says nothing about it.
_NOT_ALLOCATED = frozenset({"expandable-segments", "meta-load"})


@dataclass(frozen=True)
class Beside:
    """A planned job beside a failure."""

    case: Case
    job: Job
    plan: Plan
    agreement: Agreement
    fields: tuple[JobField, ...]
    notes: tuple[str, ...]
    _known: dict[str, PredictedSaving | None] = field(default_factory=dict, repr=False, compare=False)

    @property
    def planned(self) -> PlannedJob:
        """As reports show it."""
        return PlannedJob(
            self.fields, self.agreement, tuple(dict.fromkeys(self.plan.assumptions)), self.notes
        )

    def ordered(self, actions: Sequence[Action]) -> list[Action]:
        """The actions in their order, but first one that is not predicted to free nothing in the failing phase, where
        there is one and the log does not contradict the plan."""
        if self.agreement.doubtful or self.case.phase not in self.plan.worst.phases:
            return list(actions)
        for index, action in enumerate(actions):
            saving = self.saving(action.code)
            if saving is None or not saving.frees_nothing:
                return [action, *actions[:index], *actions[index + 1 :]]
        return list(actions)

    def told(self, advice: Advice) -> Advice:
        """The advice with what each step is predicted to free."""
        return replace(
            advice, first=self._told(advice.first), then=tuple(self._told(step) for step in advice.then)
        )

    def _told(self, step: Step) -> Step:
        return replace(step, predicted=self.saving(step.code))

    def saving(self, code: str) -> PredictedSaving | None:
        """Of the mildest change with an action's code; None where no change of a job has it, what is allocated does not
        show it, or the plan has nothing of the phase that failed."""
        if code not in self._known:
            planned = self.case.phase is Phase.UNKNOWN or self.case.phase in self.plan.worst.phases
            self._known[code] = self._predicted(code) if planned and code not in _NOT_ALLOCATED else None
        return self._known[code]

    def _predicted(self, code: str) -> PredictedSaving | None:
        change = by_code(self.job, code)
        if change is None:
            reason = self._why_not(code)
            if reason is None:
                return None
            said = f"Predicted to free nothing: {reason[:1].lower()}{reason[1:]}"
            return PredictedSaving("", said, 0, _short(self.case), False)
        try:
            after = plan(change.apply(self.job), replay=False)
        except OomphError:
            return None
        if not after.ranks:
            return None
        same = {phase: peak.allocated_bytes for phase, peak in self.plan.worst.phases.items()} == {
            phase: peak.allocated_bytes for phase, peak in after.worst.phases.items()
        }
        if same and (self.case.phase in change.phases or self.case.phase is Phase.UNKNOWN):
            said = f"Not predicted: the plan has the same bytes with and without it ({change.title})."
            return PredictedSaving(change.title, said, None, _short(self.case))
        return self._saving(change, after)

    def _why_not(self, code: str) -> str | None:
        """Why no change with this code applies; None where there is no such change."""
        if code == "micro-batch" and self.job.batch.micro == 1:
            return "The micro-batch is 1 already."
        return next((each.applies(self.job) for each in all_changes(self.job) if each.code == code), None)

    def _saving(self, change: Change, after: Plan) -> PredictedSaving:
        was, peak = self._peak(self.plan), self._peak(after)
        frees = was.allocated_bytes - peak.allocated_bytes
        missing, room = _short(self.case), room_bytes(self.case)
        highest = after.worst.peak
        doubtful = self.agreement.doubtful
        enough = None if doubtful else _enough(frees, missing, room, after)
        where = was.phase if was.phase is self.case.phase else f"{was.phase}, the highest phase"
        if frees > 0:
            said = f"Predicted to free {format_bytes(frees)} in {where} ({change.title})"
        elif frees == 0:
            said = f"Predicted to free nothing in {where} ({change.title})"
        else:
            said = f"Predicted to need {format_bytes(-frees)} more in {where} ({change.title})"
        if doubtful:
            beside_it = "" if missing is None else f"; {format_bytes(missing)} is missing"
            said += f"{beside_it}. Doubtful, since plan and log disagree."
        else:
            told = self.case.ledger.short_by_bytes is not None
            said += _beside_missing(frees, missing, room, highest, enough) if missing or not told else "."
        return PredictedSaving(change.title, said, frees, missing, enough, highest.allocated_bytes, doubtful)

    def _peak(self, of: Plan) -> PhasePeak:
        """The failing phase's; the highest where the plan does not have that phase."""
        return of.worst.phases.get(self.case.phase, of.worst.peak)


def beside(case: Case, found: Found) -> Beside | str:
    """The planned job of a failure; a sentence where it cannot be planned."""
    try:
        its = plan(found.job, replay=False)
    except OomphError as error:
        return f"The job cannot be planned: {error}"
    if not its.ranks:
        return f"The job has what is not planned: {'; '.join(its.unsupported)}."
    its = replace(its, assumptions=(*found.assumptions, *its.assumptions))
    return Beside(case, found.job, its, agreement(case, its), found.fields, found.notes)


def _short(case: Case) -> int | None:
    return case.ledger.short_by_bytes or None


def _enough(frees: int, missing: int | None, room: int | None, after: Plan) -> bool | None:
    """Whether the change is enough: it frees what was missing, and every phase of the changed job fits in what PyTorch
    could have."""
    if frees <= 0 or (missing is not None and frees < missing):
        return False
    if room is None or missing is None:
        return None
    peaks = after.worst.phases.values()
    if any(peak.low_bytes > room for peak in peaks):
        return False
    return True if all(peak.high_bytes <= room for peak in peaks) else None


def _beside_missing(
    frees: int, missing: int | None, room: int | None, highest: PhasePeak, enough: bool | None
) -> str:
    """The prediction beside the bytes that were missing, and whether it is enough, from where the sentence is."""
    if missing is None:
        return "; how much is missing is not known." if frees > 0 else "."
    said = f"; {format_bytes(missing)} is missing"
    if frees < missing:
        return f"{said}: not enough." if frees > 0 else f"{said}."
    if room is None:
        return f"{said}."
    whole = f"the changed job peaks at {format_bytes(highest.allocated_bytes)} in {highest.phase}"
    limit = f"of the {format_bytes(room)} that PyTorch could have"
    if enough:
        return f"{said}: enough, {whole}, {limit}."
    if enough is False:
        return f"{said}: enough for this request but not for the job, since {whole}, {limit}."
    interval = f"{format_bytes(highest.low_bytes)} to {format_bytes(highest.high_bytes)}"
    return f"{said}: {whole} ({interval}), {limit}, which may be enough."
