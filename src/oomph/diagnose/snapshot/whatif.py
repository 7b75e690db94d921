"""What if: the same requests under other settings, and which of them is worth trying."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from oomph.diagnose.snapshot.model import Trial, WhatIf
from oomph.diagnose.snapshot.retries import by_user
from oomph.diagnose.snapshot.whatif_answer import Try, answer
from oomph.diagnose.snapshot.whatif_plans import Plan, plans
from oomph.evidence.snapshot.model import DeviceSnapshot
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.allocator.sizes import segment_size
from oomph.memory.replay.start import Start, start_state
from oomph.memory.replay.trial import Outcome, run_trial
from oomph.memory.replay.trial_requests import Requests
from oomph.memory.replay.whatif import Baseline, baseline
from oomph.memory.timeline import DEFAULT_POOL, Kind, Timeline
from oomph.units import format_bytes

#: Memory from before the trace is worth a word from a twentieth of the peak on; less cannot change an answer much.
_WORTH_A_WORD = 0.05
_SPLIT = "max_split_size_mb:"


def what_if(
    device: DeviceSnapshot,
    settings: AllocatorSettings,
    *,
    asked: Sequence[str],
    capacity_bytes: int | None = None,
    boundaries: Sequence[int] = (),
    start: Start | None = None,
) -> WhatIf:
    """Plays the device's requests under each setting that was asked for, and says which is worth trying.

    `settings` are the job's own. `asked`: "all", PyTorch's settings text, "empty_cache" (at `boundaries`, positions
    of phase or step ends), "defaults" (none of the job's settings) or "capacity:SIZE". `capacity_bytes`: what PyTorch
    could have in all, where the caller knows. The first trial is the job as it was.

    Raises UsageError for what is no setting; SettingsError, with PyTorch's reason, for what PyTorch refuses.
    """
    timeline = device.timeline
    if start is None:
        start = start_state(device.segments, timeline, settings)
    emptied, retried = _told(timeline)
    requests = Requests(timeline, start, device.segments, emptied=emptied, retried=retried)
    todo = plans(asked, settings, _largest(requests, settings), boundaries)
    if not len(timeline):
        return WhatIf(
            None, "the snapshot has no history", (), None, "Without a history there is nothing to replay."
        )
    base = baseline(requests, settings, capacity_bytes)
    common = _common(requests, settings, base)
    share = _share(requests, base)
    own = _trial(Plan("", "as it was", settings), requests, base.outcome, common)
    tries: list[Try] = []
    for plan in todo:
        if plan.collects and plan.setting not in asked and base.ground.capacity_bytes is None:
            continue  # does nothing without a limit
        plan = _limited(plan, base)
        outcome = _run(plan, requests, settings, base, boundaries)
        if plan.setting not in asked and _adds_nothing(plan, outcome, base, tries):
            continue
        caveats = [*common, *share] if plan.settings != settings else common
        tries.append(Try(plan, _trial(plan, requests, outcome, caveats), outcome))
    worth, says = answer(requests, base, tries)
    trials = (own, *(each.trial for each in tries))
    return WhatIf(base.capacity_bytes, base.how, trials, worth, says)


def _told(timeline: Timeline) -> tuple[frozenset[int], frozenset[int]]:
    """Positions of releases whose stack shows empty_cache, and of those whose stack shows a request."""
    positions = timeline.positions(Kind.SEGMENT_FREE, Kind.SEGMENT_UNMAP)
    numbers = timeline.stack_ids(positions).tolist()
    kinds = {number: by_user(timeline.stacks.frames(number)) for number in set(numbers) if number >= 0}
    told = [
        (position, kinds.get(number)) for position, number in zip(positions.tolist(), numbers, strict=True)
    ]
    emptied = frozenset(position for position, user in told if user is True)
    return emptied, frozenset(position for position, user in told if user is False)


def _adds_nothing(plan: Plan, outcome: Outcome, base: Baseline, tries: Sequence[Try]) -> bool:
    """One of several sizes of max_split_size_mb that does what the job's own settings, or another size, do."""
    if not plan.setting.startswith(_SPLIT):
        return False
    others = [base.outcome, *(each.outcome for each in tries if each.plan.setting.startswith(_SPLIT))]
    return any(replace(outcome, events=()) == replace(other, events=()) for other in others)


def _largest(requests: Requests, settings: AllocatorSettings) -> int:
    """The largest segment of the start or that a request can bring, in bytes."""
    timeline = requests.timeline
    asked = timeline.size_bytes[timeline.positions(Kind.ALLOC, Kind.OOM)]
    most = int(asked.max(initial=0))
    page = settings.large_segment_size_bytes
    return max([segment_size(most, page), *(segment.size for segment in requests.start.segments)])


def _limited(plan: Plan, base: Baseline) -> Plan:
    """Garbage collection works only below a limit: says which one is taken."""
    if not plan.collects:
        return plan
    limit = plan.capacity_bytes or base.ground.capacity_bytes
    if limit is None:
        note = "Without a limit this does nothing, and what PyTorch could have had is not known (--capacity says it)."
        return replace(plan, caveats=(*plan.caveats, note))
    change = (
        f"{plan.change}; only with torch.cuda.set_per_process_memory_fraction, here such that PyTorch may have "
        f"{format_bytes(limit)}"
    )
    return replace(plan, change=change)


def _run(
    plan: Plan, requests: Requests, settings: AllocatorSettings, base: Baseline, boundaries: Sequence[int]
) -> Outcome:
    setup = base.setup(plan.settings)
    if plan.capacity_bytes is not None:
        setup = replace(setup, capacity_bytes=plan.capacity_bytes, capacity_at={})
    if plan.empties:
        setup = replace(setup, empty_after=tuple(boundaries))
    if plan.collects:
        setup = replace(setup, limit_bytes=setup.capacity_bytes)
    if setup == base.setup(settings):
        return base.outcome
    return run_trial(requests, setup)


def _trial(plan: Plan, requests: Requests, outcome: Outcome, caveats: Sequence[str]) -> Trial:
    said = [*plan.caveats, *caveats]
    if outcome.problems and plan.setting:
        said.append(f"{_plural(outcome.problems, 'event')} made no sense to the simulation.")
    if plan.setting and plan.settings.expandable_segments and requests.like_windows:
        said.append("Segments lie as on Windows or WSL, where PyTorch may not have expandable segments.")
    return Trial(
        setting=plan.setting,
        change=plan.change,
        peak_reserved_bytes=outcome.peak_reserved_bytes,
        peak_allocated_bytes=outcome.peak_allocated_bytes,
        fails_at=outcome.fails_at,
        retries=outcome.retries,
        releases=outcome.releases,
        caveat=" ".join(said),
        served_at=outcome.served_at,
        survived=outcome.survived,
    )


def _common(requests: Requests, settings: AllocatorSettings, base: Baseline) -> list[str]:
    """What weakens every trial of this trace."""
    found = []
    if not base.reproduced:
        why = f"{_plural(base.agree or 0, 'event')} of the driver agree before the first that differs"
        if base.outcome.problems:
            why = f"{_plural(base.outcome.problems, 'event')} made no sense to it"
        found.append(f"The simulation of the job's own settings does not give what the trace shows ({why}).")
    timeline = requests.timeline
    if len(np.unique(timeline.stream[timeline.positions(Kind.ALLOC)])) > 1:
        found.append("Several streams: when their work was done is taken from the trace.")
    pools = requests.pools or []
    if any(pool != DEFAULT_POOL for pool in pools):
        found.append("Private pools (CUDA graphs): what they gave back is not recorded, and not played.")
    if settings.garbage_collection_threshold:
        found.append("garbage_collection_threshold works below a limit, which no snapshot holds.")
    return found


def _plural(count: int, noun: str) -> str:
    """A number with its noun: 1 event, 2 events."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _share(requests: Requests, base: Baseline) -> list[str]:
    """How much of what was reserved keeps the layout that it had from the job's own settings."""
    before, peak = requests.start.reserved_bytes, base.outcome.peak_reserved_bytes
    if not peak or before < _WORTH_A_WORD * peak:
        return []
    return [
        (
            f"{format_bytes(before)} ({before / peak:.0%} of the most that was reserved) was there before the trace "
            "begins, and keeps the layout of the job's own settings here."
        )
    ]
