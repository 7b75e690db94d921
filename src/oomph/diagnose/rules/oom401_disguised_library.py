"""A library's status or a bare driver error that often means a full card, and says so nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind, Quote
from oomph.phases import Phase
from oomph.units import GIB, MIB, format_bytes

#: Formats of other rules: old PyTorch's plain device OOM, a batch finder's verdict, an inference engine's allocator.
_NOT_HERE = frozenset({"F0_thc", "none_frame_only", "V2_vllm_cumem"})
#: Loading the kernels of a library's first call has been measured at about 0.7 GiB, with its workspace on top: where
#: less than this is left, such a call may fail.
_NEARLY_FULL = GIB
#: The smallest CUDA context that has been measured; a process holds it beside what PyTorch counts.
_CONTEXT = 270 * MIB
#: With this share of the card free, memory is an unlikely reason.
_ROOMY = 0.3
_PINNED = re.compile(r"pin_memory|pinned|cudaHostAlloc|CachingHostAllocator|cudaHostRegister", re.IGNORECASE)
_TRAINING = (Phase.FORWARD, Phase.BACKWARD)


@dataclass(frozen=True)
class Fill:
    """How full the card was by one figure: what was taken, of how much, and where that is printed."""

    taken_bytes: int
    total_bytes: int
    quote: Quote

    @property
    def left_bytes(self) -> int:
        return max(0, self.total_bytes - self.taken_bytes)


class DisguisedLibraryError(Rule):
    """cuBLAS, cuDNN, driver and bare CUDA errors that may be an OOM."""

    code = "OOM401"
    cause = "disguised_library_error"
    name = "library-error-may-hide-a-full-card"
    means = (
        "CUDA's libraries and the driver take memory from the card themselves: a cuBLAS handle and its "
        "workspace, a cuDNN plan, kernels that are loaded at their first call, a context, a mapping of an "
        "expandable segment. When the card is full, such a call fails with a status of its own "
        "(CUBLAS_STATUS_ALLOC_FAILED, CUDNN_STATUS_NOT_INITIALIZED, `Unable to find a valid cuDNN "
        "algorithm`, `CUDA error: out of memory`) and no sizes are printed. The library statuses have "
        "other causes too, so without a memory figure this stays a suspicion."
    )
    decisive_evidence = (
        "A memory figure close to the failure that leaves less than about 1 GiB of the card free (a "
        "training log's figure, nvidia-smi), or an error text of the driver that itself says `out of "
        "memory`. A device-side assert or an illegal access before it means that the context was broken "
        "and memory is not the reason."
    )
    first_action = (
        "Print `torch.cuda.mem_get_info()` directly before the call that failed. Under about 1 GiB free: "
        "treat it as an out-of-memory error of that phase. Plenty free: run once with "
        "CUDA_LAUNCH_BLOCKING=1 and look for labels or token ids out of range."
    )
    verify = (
        "After the change the printed free memory at that place is well above 1 GiB and the call succeeds; "
        "run it with the old setting once more if you want to be sure that it was memory."
    )
    wrong_advice = (
        "Reinstalling CUDA, cuDNN or the driver, or turning cuDNN off, before anybody has looked at the "
        "free memory at that moment."
    )
    actions: ClassVar[tuple[str, ...]] = ("check-free-memory", "collect-smi")

    def check(self, case: Case) -> Match | None:
        """Likely with a full card or the driver's own words, possible without."""
        if case.kind not in (Kind.DISGUISED, Kind.DEVICE_OOM_BARE) or case.failure.format in _NOT_HERE:
            return None
        library = case.failure.detail.get("library", "")
        if library == "nvml":
            return None
        fill = fullest(case)
        says_oom = case.kind is Kind.DEVICE_OOM_BARE or case.failure.detail.get("status") == "outofmemory"
        what = _what(case, library, says_oom)
        actions: tuple[str, ...] = self.actions
        if case.phase in _TRAINING:
            actions = ("check-free-memory", "micro-batch", "checkpointing", "collect-smi")
        neighbours = _foreign_bytes(case)
        if says_oom and neighbours:
            says = (
                f"{what} Processes that are not known to belong to this job hold "
                f"{format_bytes(neighbours)} of GPU memory: that is more likely the reason than this job's "
                "own use."
            )
            return Match(Certainty.POSSIBLE, says, 0.1, {"foreign_bytes": neighbours}, actions=actions)
        if fill is None:
            return self._without_figures(case, what, says_oom, actions)
        numbers = {
            "taken_bytes": fill.taken_bytes,
            "total_bytes": fill.total_bytes,
            "left_bytes": fill.left_bytes,
        }
        figure = f"{format_bytes(fill.taken_bytes)} of {format_bytes(fill.total_bytes)}"
        evidence = (case.failure.quote, fill.quote)
        if fill.left_bytes <= _NEARLY_FULL:
            says = (
                f"{what} The card was nearly full: {figure} were taken, which leaves "
                f"{format_bytes(fill.left_bytes)}."
            )
            return Match(Certainty.LIKELY, says, 0.6, numbers, evidence, actions)
        if fill.left_bytes >= _ROOMY * fill.total_bytes:
            says = f"{what} The last figure before it speaks against a full card: {figure}."
            return Match(Certainty.POSSIBLE, says, 0.15, numbers, evidence, actions)
        says = f"{what} By the last figure before it {figure} were taken; that does not decide it."
        certainty = Certainty.LIKELY if says_oom else Certainty.POSSIBLE
        return Match(certainty, says, 0.3, numbers, evidence, actions)

    def _without_figures(self, case: Case, what: str, says_oom: bool, actions: tuple[str, ...]) -> Match:
        if says_oom and case.frame_matching(_PINNED, innermost=4) is not None:
            says = f"{what} It was pinning host memory, which needs no room on the card."
            return Match(Certainty.POSSIBLE, says, 0.2, actions=actions)
        says = f"{what} The log has no figure of how full the card was."
        if says_oom:
            return Match(Certainty.LIKELY, says, 0.3, actions=actions)
        return Match(Certainty.POSSIBLE, says, 0.4, actions=actions)


def _what(case: Case, library: str, says_oom: bool) -> str:
    """The error in one sentence."""
    status = case.failure.detail.get("status", "")
    if case.kind is Kind.DEVICE_OOM_BARE:
        return "A driver call outside PyTorch's allocator failed with `out of memory`; no sizes are printed."
    if library == "driver":
        mapped = ""
        if case.expandable_segments:
            mapped = " expandable_segments is on and maps memory with this kind of call"
            mapped += ", which does not work reliably on WSL2." if case.platform == "wsl2" else "."
        if says_oom:
            text = (
                "The driver could not map memory (`CUDA driver error: out of memory`); no sizes are printed."
            )
        else:
            text = (
                "The driver refused a call, as it does when memory cannot be mapped; the text does not say "
                "that it is memory."
            )
        return text + mapped
    if status == "no algorithm":
        return (
            "cuDNN found no way to run the convolution, which it also says when no workspace fits on the "
            "card."
        )
    name = library or "A library"
    return (
        f"{name} failed with {status or 'an error'}, which can mean that its handle or workspace did not fit."
    )


def fullest(case: Case) -> Fill | None:
    """The last figure of each kind before the failure, the one that leaves the least of the card."""
    return min(_fills(case), key=lambda fill: fill.left_bytes, default=None)


def _fills(case: Case) -> Iterator[Fill]:
    known_total = _total_bytes(case)
    for what in ("used", "reserved", "max_reserved", "allocated", "max_allocated"):
        found = case.samples(what)
        if not found:
            continue
        sample = found[-1]
        total = sample.total.bytes if sample.total is not None else known_total
        own = 0 if what == "used" and sample.printer == "nvidia-smi" else _CONTEXT
        if total and sample.value.bytes <= total:
            yield Fill(min(total, sample.value.bytes + own), total, sample.quote)
    for reading in _readings(case):
        if reading is not None:
            yield reading


def _readings(case: Case) -> Iterator[Fill]:
    """The last nvidia-smi reading of the failing GPU; without its index, only where one GPU was read."""
    device = case.failure.device
    gpus = {reading.gpu for reading in case.evidence.gpus}
    if device is None and len(gpus) != 1:
        return
    last: Fill | None = None
    for reading in case.evidence.gpus:
        if device is not None and reading.gpu != device:
            continue
        if reading.position.document == case.group.start.document and reading.position > case.group.start:
            continue
        if reading.used is not None and reading.total is not None:
            last = Fill(reading.used.bytes, reading.total.bytes, reading.quote)
    if last is not None:
        yield last


def _total_bytes(case: Case) -> int | None:
    total = case.number("gpu_total_bytes")
    if total:
        return total
    totals = {reading.total.bytes for reading in case.evidence.gpus if reading.total is not None}
    return totals.pop() if len(totals) == 1 else None


def _foreign_bytes(case: Case) -> int:
    """What processes without a tie to this job hold, where that is most of the card; else 0."""
    held = case.neighbours.bytes_of("foreign")
    total = _total_bytes(case)
    if not held or (total and held < total // 2):
        return 0
    return held
