"""The one setting worth trying, or none, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oomph.diagnose.snapshot.model import Trial
from oomph.diagnose.snapshot.moments import fatal_oom
from oomph.diagnose.snapshot.whatif_plans import Plan
from oomph.memory.replay.trial import Outcome
from oomph.memory.replay.trial_requests import Requests
from oomph.memory.replay.whatif import GIVEN, Baseline
from oomph.units import GIB, format_bytes

#: Where nothing failed, a setting is worth trying if it lowers the peak of reserved memory by at least a tenth (gaps
#: of jobs at fixed or varying lengths stay below: docs/decisions/0004) and by 1 GiB (what the first call of a library
#: may need: the same place).
LEAST_SHARE = 0.1
LEAST_BYTES = GIB
#: Served with less than this share of the capacity left, a job is nearly full all the same.
_NEARLY_FULL = 0.01


@dataclass(frozen=True)
class Try:
    """A plan, what came of it, and the same for the report."""

    plan: Plan
    trial: Trial
    outcome: Outcome


def answer(requests: Requests, base: Baseline, tries: Sequence[Try]) -> tuple[Trial | None, str]:
    """The trial to try first (None when none helps), and the answer in one to three sentences."""
    own = base.outcome
    settable = sorted(
        (each for each in tries if each.plan.rank is not None and each.outcome.problems <= own.problems),
        key=lambda each: (_doubtful(requests, each), each.plan.rank),
    )
    if own.served_at is not None:
        return None, _served_already(base, own.served_at)
    target = own.fails_at
    if target is None and own.survived:
        target = fatal_oom(requests.timeline)
    if own.fails_at is not None and own.fails_at not in requests.failures and base.how != GIVEN:
        return None, (
            f"In the simulation the job's own settings find no memory at event {own.fails_at:,}, where the trace goes "
            "on, so it cannot tell what others would have done."
        )
    if target is None:
        return _smaller(requests, base, settable, tries)
    return _for_failure(requests, base, target, settable, tries)


def _doubtful(requests: Requests, each: Try) -> bool:
    """Expandable segments where the addresses are those of Windows, which may not have them."""
    return requests.like_windows and each.plan.settings.expandable_segments


def _served_already(base: Baseline, position: int) -> str:
    if base.how == GIVEN:
        return (
            f"With {_size(base.capacity_bytes)} the request that failed at event {position:,} is served without any "
            f"change; what the job would have asked for after it is not in the trace."
        )
    return (
        f"In the simulation the job's own settings serve the request that failed at event {position:,}, so it cannot "
        "tell what others would have done."
    )


def _for_failure(
    requests: Requests, base: Baseline, target: int, settable: Sequence[Try], tries: Sequence[Try]
) -> tuple[Trial | None, str]:
    own = base.outcome
    recorded = target in requests.failures
    request = int(requests.timeline.size_bytes[target]) if recorded else own.request_bytes
    least, most = base.at(target), base.most_at(target)
    if least is None or most is None:  # nothing can fail without a capacity
        return None, "What PyTorch could have had is not known, so nothing tells what would have helped."
    needed = max(0, requests.requested_bytes_at(target - 1))
    used = own.allocated_bytes if own.fails_at == target else needed
    used = max(used, needed)  # more than was asked for, unless events are missing
    verb = "failed" if recorded else "fails"
    failed = f"the request of {format_bytes(request)} that {verb} at event {target:,}"
    larger = _larger(tries, target, recorded)
    if needed + request > most:
        return None, (
            f"No setting helps: {format_bytes(used)} in use and {failed} are {_beyond(used + request, least, most)} "
            f"that PyTorch can have.{larger}"
        )
    if not settable:
        return None, f"No setting was tried for {failed}.{larger}"
    for each in settable:
        if _serves(each.outcome, target, recorded):
            return each.trial, _served(base, each, failed, recorded, least)
    for each in settable:
        if each.outcome.served_at is not None and each.outcome.served_at < target:
            return None, _earlier(each, target)
    names = ", ".join(each.plan.setting for each in settable)
    return None, (
        f"None of the settings tried serves {failed} ({names}): {format_bytes(used)} was in use, of "
        f"{format_bytes(least)} that PyTorch can have.{larger}{_old_layout(requests, own)}"
    )


def _served(base: Baseline, best: Try, failed: str, recorded: bool, capacity: int) -> str:
    """A setting serves the request: with what, and what that is worth."""
    verb = "would have served" if recorded else "serves"
    says = f"{best.plan.setting} {verb} {failed}, with at most {_size(best.outcome.peak_reserved_bytes)} reserved."
    left = capacity - best.outcome.allocated_bytes
    if recorded and left < _NEARLY_FULL * capacity:
        says += f" Only {format_bytes(left)} would have been left: the device is nearly full all the same."
    elif recorded:
        says += " What the job would have asked for after it is not in the trace."
    if not base.reproduced:
        says += " But the simulation does not give what the trace shows, so this is a guess."
    return says


def _beyond(needed: int, least: int, most: int) -> str:
    """How much is missing; a capacity that is known as a range gives no number."""
    if most == least:
        return f"{format_bytes(needed - least)} more than the {format_bytes(least)}"
    return f"more than the {format_bytes(least)} to {format_bytes(most)}"


def _earlier(each: Try, target: int) -> str:
    """The job survived a failure that another setting prevents: its way from there on is not known."""
    return (
        f"{each.plan.setting} would have served the request that failed at event {each.outcome.served_at:,}, which the "
        "job survived. What it would have asked for then is not in the trace, so nothing tells about the request that "
        f"failed at event {target:,}."
    )


def _serves(outcome: Outcome, target: int, recorded: bool) -> bool:
    """Whether the request at `target` was served, and if the trace goes on behind it, all after it too."""
    if recorded:
        return outcome.served_at == target
    return outcome.fails_at is None


def _larger(tries: Sequence[Try], target: int, recorded: bool) -> str:
    """Which of the devices that were asked for would have been large enough."""
    enough = [
        each
        for each in tries
        if each.plan.capacity_bytes is not None and _serves(each.outcome, target, recorded)
    ]
    if not enough:
        return ""
    smallest = min(each.plan.capacity_bytes or 0 for each in enough)
    return f" {format_bytes(smallest)} for PyTorch would have been enough for it."


def _smaller(
    requests: Requests, base: Baseline, settable: Sequence[Try], tries: Sequence[Try]
) -> tuple[Trial | None, str]:
    """Nothing failed: whether a setting saves much, or spares PyTorch from giving memory back and asking again."""
    own = base.outcome
    peak, begun = _size(own.peak_reserved_bytes), "Nothing failed"
    if own.retries:
        times = "once" if own.retries == 1 else f"{own.retries:,} times"
        begun += f", but cached memory had to be given back {times} to serve a request"
        begun += "" if requests.sure or base.how == GIVEN else " (if that was not empty_cache)"
    through = [each for each in settable if each.outcome.fails_at is None]
    for each in through:
        theirs = each.outcome
        saved = own.peak_reserved_bytes - theirs.peak_reserved_bytes
        if saved >= max(LEAST_BYTES, LEAST_SHARE * own.peak_reserved_bytes):
            return each.trial, (
                f"{begun}; with {each.plan.setting} the most that is reserved would have been "
                f"{_size(theirs.peak_reserved_bytes)} instead of {peak}."
            )
        spared = own.retries and not theirs.retries and theirs.releases < own.releases and saved >= 0
        if spared and (requests.sure or base.how == GIVEN):
            return each.trial, (
                f"{begun}; with {each.plan.setting} that is not needed, and {_size(theirs.peak_reserved_bytes)} "
                f"instead of {peak} is reserved at most."
            )
    return None, f"{begun}; {_none_saves(requests, own, settable)}." + _failing(tries)


def _none_saves(requests: Requests, own: Outcome, settable: Sequence[Try]) -> str:
    """Why nothing is worth trying where nothing failed."""
    peak, before = own.peak_reserved_bytes, requests.start.reserved_bytes
    if not settable:
        return f"at most {_size(peak)} was reserved"
    least = max(LEAST_BYTES, LEAST_SHARE * peak)
    if peak >= least > peak - before:
        return (
            f"of the {_size(peak)} that were reserved at most, {_size(before)} was there before the trace begins, so "
            "it cannot tell whether other settings would have reserved less"
        )
    return f"none of the settings tried lowers the most that is reserved ({_size(peak)}) by a tenth and 1 GiB"


def _failing(tries: Sequence[Try]) -> str:
    """Where the first of the trials that failed did so."""
    for each in tries:
        if each.outcome.fails_at is not None:
            return f" With {each.plan.setting} a request fails at event {each.outcome.fails_at:,}."
    return ""


def _old_layout(requests: Requests, own: Outcome) -> str:
    """Settings that apply from the start of a job can do better than in the middle of it."""
    before = requests.start.reserved_bytes
    if before < LEAST_SHARE * own.peak_reserved_bytes:
        return ""
    return (
        f" {format_bytes(before)} was there before the trace begins and keeps its layout here; with the setting from "
        "the start of the job it may be otherwise."
    )


def _size(size_bytes: int | None) -> str:
    return "an unknown size" if size_bytes is None else format_bytes(size_bytes)
