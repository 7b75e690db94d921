"""What a trial showed: from the records of its ranks, else from what it printed, else from its exit code.

Only two answers say anything about memory on the device. A rank's failed request that nothing caught is `oom`, however
the others ended: that they hang, or lose their connection, comes of it. Everything else that went wrong is named for
what it is, and counts as nothing known.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from oomph.errors import OomphError
from oomph.evidence.run.data import Outcome, RankData, RunData
from oomph.evidence.run.model import OOM, OomRecord, rank_name
from oomph.evidence.run.read import is_run, read_run
from oomph.phases import Phase
from oomph.trial.engine import Finished
from oomph.trial.growth import growth_of
from oomph.trial.model import PhasePeak, TrialOutcome, TrialResult, Value
from oomph.trial.printed import Printed, printed_by
from oomph.units import format_bytes

#: The run directory below a trial's folder.
RUN = "run"
_STOPPED = {
    "cancelled": TrialOutcome.CANCELLED,
    "lost": TrialOutcome.LOST,
    "seconds": TrialOutcome.HUNG,
    "memory": TrialOutcome.HOST_OOM,
    "disk": TrialOutcome.DISK,
}
_COMMUNICATION = re.compile(
    r"DistBackendError|DistNetworkError|DistStoreError|NCCL error|ncclSystemError|ncclUnhandledCudaError|"
    r"ncclInternalError|ncclRemoteError|collective operation timeout|Connection (?:closed|reset|refused) by|"
    r"gloo.{0,40}(?:timed? ?out|transport)|ProcessGroup(?:NCCL|Gloo)",
    re.IGNORECASE,
)
#: What is said of a trial that fits, and did not all the time.
CAUGHT = "; failed requests were caught on the way"
_DISK = re.compile(r"No space left on device|Disk quota exceeded|\[Errno (?:28|122)\]")


def read_trial(
    finished: Finished,
    *,
    number: int,
    setting: Mapping[str, Value],
    reached: bool = False,
    goal: str = "",
) -> TrialResult:
    """The result of a task that has ended, whose folder has a run directory `run/` where it was recorded. `reached`:
    it was stopped because it had come as far as was asked (`goal`, in words). Raises nothing."""
    folder = finished.task.folder
    run = _run(folder)
    base = TrialResult(
        number=number,
        setting=dict(setting),
        outcome=TrialOutcome.CRASHED,
        why="",
        seconds=round(finished.seconds, 3),
        exit_code=finished.exit_code,
        directory=str(folder),
    )
    if run is not None and run.ranks:
        died = not finished.stopped and not reached and finished.exit_code != 0
        base = _with_records(base, run, died=died)
        failed = _failed_rank(run, died=died)
        if failed is not None:
            return _out_of_memory(base, run, failed)
    outcome, why, known_by = _otherwise(finished, run, reached, goal)
    if isinstance(outcome, Printed):
        return _printed_oom(base, outcome)
    return _changed(base, outcome=outcome, why=why, known_by=known_by)


def _run(folder: Path) -> RunData | None:
    """What was recorded. Whoever recorded it is gone, wherever that was."""
    with contextlib.suppress(OomphError, OSError):
        if is_run(folder / RUN):
            return read_run(folder / RUN, alive=lambda _header: False)
    return None


def _changed(result: TrialResult, **changes: object) -> TrialResult:
    import msgspec

    return msgspec.structs.replace(result, **changes)


# -- records -----------------------------------------------------------------------------------------------------------


def _failed_rank(run: RunData, *, died: bool) -> RankData | None:
    """The rank whose failed request ended the trial: the first, where several failed."""
    failed = {rank: data for rank, data in run.ranks.items() if fatal(data, died=died) is not None}
    if not failed:
        return None
    if run.first_failure is not None:
        for rank in run.first_failure.ranks:
            if rank in failed:
                return failed[rank]
    return min(failed.values(), key=lambda data: data.ooms[-1].time)


def fatal(rank: RankData, *, died: bool = False) -> OomRecord | None:
    """The failed request that ended a rank; None where there was none, or it was caught.

    The allocator tells of every request that fails, also of one that a library does without (cuDNN tries a smaller
    workspace). So a record without the exception's message counts only where the process ended by itself then (`died`).
    """
    if rank.end is not None and rank.outcome is Outcome.OOM:
        return rank.oom
    if rank.outcome is Outcome.COMPLETED or not rank.ooms or rank.ooms[-1].caught:
        return None
    last, header = rank.ooms[-1], rank.header
    if header is not None and last.clock < header.clock:
        return None
    return last if last.message or (died and rank.end is None) else None


def _with_records(base: TrialResult, run: RunData, *, died: bool) -> TrialResult:
    headers = [one.header for one in run.ranks.values() if one.header is not None]
    capacities = [one.capacity_bytes for one in headers if one.capacity_bytes is not None]
    return _changed(
        base,
        world_size=run.world_size,
        step=min(one.steps_completed for one in run.ranks.values()),
        capacity_bytes=min(capacities, default=None),
        outside_bytes=max((sum(each) for each in _outside(run)), default=None),
        other_processes_bytes=max((others for _, others in _outside(run)), default=None),
        growth_bytes=max(
            (size for one in run.ranks.values() if (size := growth_of(one)) is not None), default=None
        ),
        peaks=peaks_of(run, died=died),
        known_by="records",
    )


def _outside(run: RunData) -> Iterator[tuple[int, int]]:
    """(what this process holds outside of the allocator, what other processes hold), as each phase saw it."""
    for rank in run.ranks.values():
        for summary in rank.summaries.values():
            for peaks in (summary.first, summary.later):
                if peaks is not None and peaks.outside_bytes is not None:
                    yield peaks.outside_bytes, max(0, peaks.other_processes_bytes or 0)


def peaks_of(run: RunData, *, died: bool = False) -> tuple[PhasePeak, ...]:
    """The most of each phase, on the rank that needed most of it."""
    found: dict[Phase, PhasePeak] = {}
    for rank in run.ranks.values():
        failure = fatal(rank, died=died)
        for phase, summary in rank.summaries.items():
            if phase is Phase.UNKNOWN:
                continue
            both = [one for one in (summary.first, summary.later) if one is not None]
            most = max(both, key=lambda one: one.allocated_bytes)
            peak = PhasePeak(
                phase=phase.value,
                allocated_bytes=most.allocated_bytes,
                reserved_bytes=summary.peak_reserved_bytes,
                rank=rank.rank,
                failed=failure is not None and failure.phase is phase,
                start_bytes=max(0, most.allocated_bytes - most.growth_bytes),
            )
            _keep(found, phase, peak)
        if failure is not None:
            lower = failure.counters.allocated_bytes + least_asked(failure.request_bytes or 0)
            _keep(found, failure.phase, PhasePeak(failure.phase.value, lower, None, rank.rank, failed=True))
    return tuple(found[phase] for phase in Phase if phase in found)


def least_asked(request: int) -> int:
    """The least that a tensor needed whose request failed: the allocator tells the segment that it wanted. A segment of
    20 MiB is for any tensor of more than 1 MiB and less than 10 MiB (and for one of 18 to 20 MiB), one of 2 MiB for all
    of 1 MiB at most, larger ones are rounded up to 2 MiB (kSmallBuffer, kLargeBuffer, kMinLargeAlloc and kRoundLarge in
    c10/cuda/CUDACachingAllocator.cpp). Others, of a recording that tells the tensor itself, are what they are."""
    if request == 20 << 20:
        return (1 << 20) + 512
    if request == 2 << 20:
        return 512
    if request > 10 << 20 and request % (2 << 20) == 0:
        return request - (2 << 20) + 512
    return request


def _keep(found: dict[Phase, PhasePeak], phase: Phase, peak: PhasePeak) -> None:
    """One rank's lower bound makes the phase's number a lower bound."""
    before = found.get(phase)
    if before is None:
        found[phase] = peak
        return
    high = peak if peak.allocated_bytes > before.allocated_bytes else before
    found[phase] = _peak_with(high, failed=before.failed or peak.failed)


def _peak_with(peak: PhasePeak, *, failed: bool) -> PhasePeak:
    import msgspec

    return msgspec.structs.replace(peak, failed=failed)


def _phase_of(run: RunData, rank: RankData, failure: OomRecord) -> str:
    """The phase of a failed request. Between two phases (a batch on its way to the device) the traceback may say which
    one was to come; "" where it does not."""
    if failure.phase is not Phase.UNKNOWN:
        return str(failure.phase.value)
    names = [name for name in failure.files if name.startswith("traceback")]
    paths = [Path(run.path) / OOM / rank_name(rank.rank) / name for name in names]
    return printed_by([path for path in paths if path.is_file()]).phase if failure.step >= 0 else ""


def _out_of_memory(base: TrialResult, run: RunData, rank: RankData) -> TrialResult:
    failure = fatal(rank, died=True)
    assert failure is not None
    phase = _phase_of(run, rank, failure)
    who = f"rank {rank.rank} ran out of memory" if (run.world_size or 1) > 1 else "memory ran out"
    where = f" in {phase}" if phase else " before training began" if failure.step < 0 else ""
    step = f" of step {failure.step}" if failure.step >= 0 else ""
    asked = f": {format_bytes(failure.request_bytes)} were asked for" if failure.request_bytes else ""
    held = f"{' with' if asked else ':'} {format_bytes(failure.counters.allocated_bytes)} allocated"
    return _changed(
        base,
        outcome=TrialOutcome.OOM,
        why=f"{who}{where}{step}{asked}{held}",
        phase=phase,
        rank=rank.rank,
        step=max(0, failure.step),
        request_bytes=failure.request_bytes,
    )


# -- without a failed request in the records ---------------------------------------------------------------------------


def _otherwise(
    finished: Finished, run: RunData | None, reached: bool, goal: str
) -> tuple[TrialOutcome | Printed, str, str]:
    recorded = run is not None and bool(run.ranks)
    by = "records" if recorded else "exit code"
    more = CAUGHT if run is not None and any(_caught(one) for one in run.ranks.values()) else ""
    if reached:
        return TrialOutcome.FITS, f"it passed {goal or 'what was asked'} on every rank{more}", "records"
    if finished.stopped:
        return _STOPPED.get(finished.stopped, TrialOutcome.LOST), _why_stopped(finished, run), by
    printed = printed_by(_texts(finished.task.folder))
    if finished.exit_code == 0:
        if not recorded and printed.device_oom:
            return printed, "", "output"
        return TrialOutcome.FITS, f"the command ended in order{more}", by
    if printed.device_oom:
        return printed, "", "output"
    code = finished.exit_code
    ended = f"the command ended with exit code {code}" if code is not None else "nobody saw how it ended"
    if finished.why:
        ended = finished.why
    errors = [one.end.error for one in run.ranks.values() if one.end is not None] if run is not None else []
    text = "\n".join((*errors, printed.tail))
    if printed.host_oom:
        return TrialOutcome.HOST_OOM, f"main memory ran out: {printed.host_oom}", "output"
    if _DISK.search(text):
        return TrialOutcome.DISK, f"a disk was full; {ended}", "output"
    last = next((error for error in errors if error), "") or printed.error
    said = f": {last[:300]}" if last else ""
    if _COMMUNICATION.search(last) or (not last and _COMMUNICATION.search(text)):
        return TrialOutcome.COMMUNICATION, f"communication failed; {ended}{said}", "output"
    if code == 137:
        ended += " (killed by signal 9, nobody said why: the kernel does that when main memory runs out)"
    return TrialOutcome.CRASHED, f"{ended}{said}", "output" if last else by


def _caught(rank: RankData) -> bool:
    """Whether it caught a failed request whose exception it had seen."""
    return any(one.caught and one.message for one in rank.ooms)


def _why_stopped(finished: Finished, run: RunData | None) -> str:
    if finished.stopped == "seconds":
        steps = min((one.steps_completed for one in run.ranks.values()), default=0) if run is not None else 0
        done = f"; {steps} optimizer steps were done by then" if steps else ""
        return f"its time was over ({finished.why or 'the limit was reached'}){done}"
    return finished.why or {"cancelled": "it was stopped", "lost": "its engine lost it"}.get(
        finished.stopped, finished.stopped
    )


def _printed_oom(base: TrialResult, printed: Printed) -> TrialResult:
    where = f" in {printed.phase}" if printed.phase else ""
    who = f"rank {printed.rank} ran out of memory" if printed.rank is not None else "memory ran out"
    return _changed(
        base,
        outcome=TrialOutcome.OOM,
        why=f"{who}{where}, by what was printed alone: {printed.device_oom}",
        phase=printed.phase,
        rank=printed.rank,
        request_bytes=printed.request_bytes,
        capacity_bytes=base.capacity_bytes or printed.capacity_bytes,
        known_by="output",
    )


def _texts(folder: Path) -> Sequence[Path]:
    """What was printed: the run directory's copy, else what came through the supervisor."""
    kept = [folder / RUN / name for name in ("job.out", "job.err")]
    if not any(path.is_file() for path in kept):
        kept = [folder / name for name in ("out.txt", "err.txt")]
    return [path for path in kept if path.is_file() and path.stat().st_size]
