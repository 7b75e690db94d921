"""The plan of a job held against what the log says was allocated when the request failed.

What a failing phase needs is at least what was allocated and the request that failed. The plan's peak is that of the
whole phase, which the job may not have reached.
"""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.planned import Agreement
from oomph.phases import Phase
from oomph.predict.model import PhasePeak, Plan
from oomph.units import MIB, format_bytes

_MORE = (
    "Usually the batch or the sequences of that step are longer than the job says, something grows over the steps "
    "(a loss that is kept with its graph, a cache), the process holds another model beside this one, or a field of the "
    "job is wrong."
)
_LESS_STEPS = (
    "Steps had been finished with what the plan says does not fit. Usually the batches before were shorter, less was "
    "free at this one (another process, an engine beside the training), or a field of the job is wrong."
)
_LESS_FITS = (
    "By the plan the phase fits. Usually what is free is in pieces that are too small (fragmentation), a limit is set, "
    "or a field of the job is wrong."
)
_LESS_LOSS = (
    "Usually more is checkpointed or less is kept than the job says, the batch was a shorter one, or another field of "
    "the job is wrong."
)
#: Frames of a loss over logits.
_LOSS = re.compile(r"cross_entropy|[/\\]loss(?:es)?[/\\.]|loss_fn\b|\bloss_function\b", re.IGNORECASE)
#: What a loss can still allocate when one of its requests has failed, in tensors of that size: logits in fp32, their
#: log-softmax, a contiguous copy of the shifted ones (torch.nn.functional.cross_entropy; transformers' loss_utils.py).
_LOGITS = 3


def agreement(case: Case, plan: Plan) -> Agreement:
    """What plan and log say of the failing phase on that rank, in a sentence or two."""
    peak = plan.worst.phases.get(case.phase) if plan.ranks else None
    if peak is None:
        where = "an unknown phase" if case.phase is Phase.UNKNOWN else f"the phase {case.phase}"
        said = f"The job failed in {where}, of which the plan says nothing: it is not held against the log."
        return Agreement("unknown", said)
    needed = needed_bytes(case)
    if needed is None:
        said = (
            f"The plan predicts {_interval(peak)} in {case.phase}; the log does not say how much was allocated, so the "
            "two are not compared."
        )
        return _made("unknown", said, peak, None)
    verdict, said = _verdict(case, peak, needed)
    return _made(verdict, f"{said}{_neighbour(case, plan)}", peak, needed)


def needed_bytes(case: Case) -> int | None:
    """What was allocated at the failure and the request that failed; None where the log does not say."""
    allocated = case.ledger.allocated_bytes
    request = case.ledger.request_bytes or case.ledger.segment_bytes
    return None if allocated is None or request is None else allocated + request


def room_bytes(case: Case) -> int | None:
    """What PyTorch could have on the card at the failure: what it had reserved, and what was free; less where a limit
    is set."""
    ledger = case.ledger
    room = None
    if ledger.reserved_bytes is not None and ledger.free_bytes is not None:
        room = ledger.reserved_bytes + ledger.free_bytes
    if ledger.limit_bytes is not None:
        room = ledger.limit_bytes if room is None else min(room, ledger.limit_bytes)
    return room


def _verdict(case: Case, peak: PhasePeak, needed: int) -> tuple[str, str]:
    slack = _slack(case)
    room = room_bytes(case)
    has = f"the log has {format_bytes(needed)} (allocated, and the request that failed)"
    predicted = f"predicted {_interval(peak)} in {case.phase}"
    if needed - slack > peak.high_bytes:
        by = format_bytes(needed - peak.high_bytes)
        return "more", f"Plan and log disagree: {predicted}, {has}, {by} more than the plan allows. {_MORE}"
    if needed + slack >= peak.low_bytes:
        return "agrees", f"The plan agrees with the log: {predicted}, {has}."
    by = format_bytes(peak.low_bytes - needed)
    if room is not None and peak.high_bytes <= room:
        return "less", (
            f"Plan and log disagree: {predicted}, less than the {format_bytes(room)} that PyTorch could have; {has}, "
            f"{by} less than that. {_LESS_FITS}"
        )
    if case.phase_verdict.first_step is False and room is not None and peak.low_bytes > room:
        return "less", (
            f"Plan and log disagree: {predicted}, more than the {format_bytes(room)} that PyTorch could have; {has}, "
            f"{by} less than the plan. {_LESS_STEPS}"
        )
    if (
        _in_the_loss(case, peak)
        and needed + _LOGITS * (case.ledger.segment_bytes or 0) + slack < peak.low_bytes
    ):
        return "less", (
            f"Plan and log disagree: {predicted}; {has}, {by} less than the plan, though the request failed in the "
            f"loss, when all that forward keeps was alive. {_LESS_LOSS}"
        )
    return "on_the_way", (
        f"The plan does not contradict the log, which does not confirm it: {predicted}; {has}, so the request failed "
        f"{by} before the least that the plan has for the peak."
    )


def _in_the_loss(case: Case, peak: PhasePeak) -> bool:
    """Whether the request failed where the plan has the peak of forward."""
    return (
        case.phase is Phase.FORWARD
        and "loss" in peak.where
        and case.frame_matching(_LOSS, innermost=8) is not None
    )


def _slack(case: Case) -> int:
    """How much less may have been needed: rounding of the print, and of the request to a segment (a segment of 20 MiB
    holds requests from 1 MiB on, larger ones are whole 2 MiB: kLargeBuffer and kRoundLarge in
    c10/cuda/CUDACachingAllocator.cpp)."""
    ledger = case.ledger
    rounding = 20 * MIB if (ledger.segment_bytes or 0) <= 20 * MIB else 2 * MIB
    return (
        ledger.slack_bytes.get("allocated_bytes", 0) + ledger.slack_bytes.get("segment_bytes", 0) + rounding
    )


def _neighbour(case: Case, plan: Plan) -> str:
    """What was on the card beside PyTorch's memory, where that is more than this process takes by the plan."""
    ledger, outside = case.ledger, plan.worst.outside
    beside = ledger.not_torch_bytes
    slack = ledger.slack_bytes.get("not_torch_bytes", 0)
    if beside is None or beside - slack <= outside.high_bytes:
        return ""
    if ledger.outside_bytes is not None and ledger.outside_bytes - slack > outside.high_bytes:
        return (
            f" Outside PyTorch's allocator this process has {format_bytes(ledger.outside_bytes)}, where the context "
            f"and NCCL take {format_bytes(outside.high_bytes)} at most by the plan: another library of the process "
            "holds the rest."
        )
    return (
        f" Beside PyTorch's memory {format_bytes(beside)} of the card were taken, where the context and NCCL take "
        f"{format_bytes(outside.high_bytes)} at most by the plan: usually another process."
    )


def _interval(peak: PhasePeak) -> str:
    return f"{format_bytes(peak.allocated_bytes)} ({format_bytes(peak.low_bytes)} to {format_bytes(peak.high_bytes)})"


def _made(verdict: str, said: str, peak: PhasePeak, needed: int | None) -> Agreement:
    return Agreement(verdict, said, peak.allocated_bytes, peak.low_bytes, peak.high_bytes, needed)
