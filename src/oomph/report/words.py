"""The words that all renderers share: headline, places, counts, sizes, and what "tried to allocate" means."""

from __future__ import annotations

import re
from collections.abc import Iterable

from oomph.diagnose.model import Incident, Outcome, PhaseVerdict
from oomph.diagnose.notes import RULES_LEFT_OUT
from oomph.evidence.model import Frame, Kind, Quote
from oomph.memory.ledger import Ledger
from oomph.phases import Phase
from oomph.report.clean import flat
from oomph.report.view import View
from oomph.units import MIB, format_bytes

#: The way to a library's own path.
_LIBRARY = re.compile(r"^.*/(?:site|dist)-packages/+", re.DOTALL)

_VENDORS = {"cuda": "CUDA", "hip": "HIP", "xpu": "XPU", "mps": "MPS", "npu": "NPU"}

_KINDS = {
    Kind.DEVICE_OOM: "{vendor} out of memory",
    Kind.DEVICE_OOM_BARE: "{vendor} out of memory (no numbers printed)",
    Kind.DISGUISED: "An error that may be {vendor} out of memory",
    Kind.NCCL_OOM: "NCCL out of memory",
    Kind.HOST_OOM: "Host out of memory",
    Kind.KILLED: "Process killed (SIGKILL)",
    Kind.SHM: "Shared memory error (/dev/shm)",
    Kind.MANAGED_OOM: "{vendor} managed memory error",
    Kind.UNIFIED_OOM: "{vendor} out of memory (unified memory)",
    Kind.NOT_MEMORY: "An error that is not a lack of memory",
}

_PHASES = {
    Phase.INIT: "during init",
    Phase.LOAD: "during load",
    Phase.FORWARD: "in forward",
    Phase.BACKWARD: "in backward",
    Phase.OPTIMIZER: "in the optimizer step",
    Phase.EVAL: "in evaluation",
    Phase.GENERATE: "in generation",
    Phase.SAVE: "during save",
    Phase.UNKNOWN: "in an unknown phase",
}

#: Vendors whose allocator has this rule for segments. (cudaMallocAsync, format A1, has not; neither has MPS.)
_CACHING = frozenset(("cuda", "hip", "xpu", "npu"))

#: Kinds whose memory is not a device's.
HOST_KINDS = frozenset((Kind.HOST_OOM, Kind.KILLED, Kind.SHM))

#: Names of facts as people write them; others are printed with blanks for underscores.
_FACTS = {
    "torch_version": "PyTorch",
    "cuda_version": "CUDA",
    "driver_version": "driver",
    "gpu_name": "GPU",
    "gpu_total_bytes": "GPU memory",
    "accumulation": "gradient accumulation",
    "alloc_conf": "allocator settings",
    "total_params": "parameters",
    "trainable_params": "trainable parameters",
    "dtype": "weights",
    "lora_rank": "LoRA rank",
    "zero_stage": "ZeRO stage",
    "checkpointing": "activation checkpointing",
}


def headline(view: View) -> str:
    """One line: what happened, in which phase, on which rank and device."""
    diagnosis, incident = view.diagnosis, view.incident
    if diagnosis.outcome is Outcome.NO_OOM:
        damaged = [source.damage for source in view.sources if source.damage]
        if damaged:
            return f"No out-of-memory failure found in what could be read of {_files(view)}: {_damage(view, damaged)}"
        return f"No out-of-memory failure found in {read_so_far(view)}"
    step = _step_words(view)
    if diagnosis.summary and view.is_explained:
        return flat(diagnosis.summary).rstrip(".") + step
    if diagnosis.outcome is Outcome.RECOVERED:
        caught = plural(len(view.incidents) or 1, "out-of-memory error")
        return f"The job recovered from {caught}"
    if incident is None:
        return "A failure for lack of memory"
    return f"{what(incident)} {phase_words(incident.phase)}{place(incident)}{step}"


def _step_words(view: View) -> str:
    """The last training step before the failure; "" where it may be that of an earlier attempt."""
    incident = view.incident
    if incident is None or view.last_step is None or view.diagnosis.outcome is not Outcome.FAILED:
        return ""
    if incident.phase.phase in (Phase.INIT, Phase.LOAD, Phase.UNKNOWN) or incident.phase.first_step:
        return ""
    return f", after training step {view.last_step}"


def no_finding(view: View) -> str:
    """What stands in the place of the findings of a failure that has none."""
    if RULES_LEFT_OUT in view.diagnosis.notes:
        return RULES_LEFT_OUT
    return "Nothing in the input proves a cause."


def what(incident: Incident) -> str:
    """What happened, as far as the failure's text proves it: "CUDA out of memory"."""
    vendor = incident.failure.vendor
    return _KINDS[incident.failure.kind].format(vendor=_VENDORS.get(vendor, vendor.upper() or "device"))


def phase_words(verdict: PhaseVerdict) -> str:
    """The phase in a sentence: "in backward (checkpoint recompute)"."""
    return _PHASES[verdict.phase] + (" (checkpoint recompute)" if verdict.recompute else "")


def place(incident: Incident) -> str:
    """Where: " on rank 1 (GPU 1)", " on GPU 0", or nothing when neither is known."""
    device = device_words(incident)
    if incident.rank is None:
        return f" on {device}" if device else ""
    return f" on rank {incident.rank}" + (f" ({device})" if device else "")


def device_words(incident: Incident) -> str:
    """The device: "GPU 1", "XPU 0"; "" when it is not printed or not the subject."""
    if incident.failure.device is None or incident.failure.kind in HOST_KINDS:
        return ""
    name = {"xpu": "XPU", "npu": "NPU"}.get(incident.failure.vendor, "GPU")
    return f"{name} {incident.failure.device}"


def read_so_far(view: View) -> str:
    """What was read: "2 files (1,204 lines)"; "at least" where only parts of a file were kept."""
    snapshots = [source for source in view.sources if source.is_snapshot]
    told = []
    if len(snapshots) < len(view.sources) or not snapshots:
        at_least = "at least " if any(source.partial for source in view.sources) else ""
        told.append(f"{_files(view)} ({at_least}{plural(view.lines, 'line')})")
    if snapshots:
        events = sum(source.lines for source in snapshots)
        told.append(f"{plural(len(snapshots), 'memory snapshot')} ({plural(events, 'event')})")
    return " and ".join(told)


def _files(view: View) -> str:
    count = sum(not source.is_snapshot for source in view.sources)
    return "standard input" if count == 1 and view.sources[0].name == "-" else plural(count, "file")


def _damage(view: View, damaged: list[str]) -> str:
    """What is wrong with an input that was not read to its end: "its end is missing"."""
    if len(view.sources) == 1:
        return damaged[0]
    return f"{len(damaged):,} of them {'is' if len(damaged) == 1 else 'are'} damaged or cut short"


def plural(count: int, noun: str) -> str:
    """A count and its noun: "1 file", "2 files", "1,204 lines"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in any order as ranges: "0, 2-5, 7"."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" if b > a + 1 else f"{a}, {b}" for a, b in spans)


def where(quote: Quote) -> str:
    """A quote's place: "train.log:120", "standard input:3"."""
    source = "standard input" if quote.source == "-" else quote.source
    return f"{source}:{quote.line}" if quote.line > 0 else source


def frame_words(frame: Frame) -> str:
    """A frame's place: "train.py:70, in train"; of a library's path only what follows site-packages."""
    line = f":{frame.line}" if frame.line > 0 else ""
    file = _LIBRARY.sub("", frame.file.replace("\\", "/"))
    return f"{file}{line}" + (f", in {frame.function}" if frame.function else "")


def says_frame(verdict: PhaseVerdict) -> bool:
    """Whether the verdict's sentence names its frame already."""
    frame = verdict.frame
    return frame is not None and f":{frame.line}" in verdict.why and frame.function in verdict.why


class Places:
    """Short names of the places of quotes in one report: the line alone where there is one input, otherwise as many of
    the last parts of a path as tell the inputs apart."""

    def __init__(self, sources: Iterable[str]) -> None:
        self._names = list(dict.fromkeys(sources))

    def __call__(self, quote: Quote) -> str:
        """A quote's place: "line 120", "rank1/stderr.log:120"."""
        if quote.line > 0 and self._names == [quote.source]:
            return f"line {quote.line}"
        return where(Quote(self._short(quote.source), quote.line, ""))

    def _short(self, source: str) -> str:
        parts = source.replace("\\", "/").split("/")
        for count in range(1, len(parts)):
            tail = "/".join(parts[-count:])
            alike = [
                name for name in self._names if name.replace("\\", "/").endswith("/" + tail) or name == tail
            ]
            if len(alike) < 2:
                return tail
        return source


def fact_words(name: str, value: str) -> tuple[str, str]:
    """A fact's name and value for people: bytes with a unit, large counts with commas."""
    label = _FACTS.get(name, name.replace("_", " "))
    if value.isdecimal() and value.isascii() and len(value) < 20:
        if name.endswith("_bytes"):
            return label, format_bytes(int(value))
        if len(value) > 4:
            return label, f"{int(value):,}"
    return label, flat(value)


def size(size_bytes: int, slack_bytes: int = 0) -> str:
    """A size, with its rounding where that is 1 % of it or more: "285.00 MiB (+- 10.24 MiB)"."""
    text = format_bytes(size_bytes)
    if slack_bytes and slack_bytes * 100 >= size_bytes:
        return f"{text} (+- {format_bytes(slack_bytes)})"
    return text


def asked_bytes(ledger: Ledger) -> tuple[int, int] | None:
    """What was asked for and its slack: the segment, or the request where only that was printed."""
    for name in ("segment_bytes", "request_bytes"):
        value = getattr(ledger, name)
        if value is not None:
            return value, ledger.slack_bytes.get(name, 0)
    return None


def asked_words(ledger: Ledger) -> str:
    """The request against what was free: "Asked for 580.00 MiB, 328.62 MiB was free: 251.38 MiB short."; or ""."""
    asked = asked_bytes(ledger)
    if asked is None:
        return ""
    request, slack = asked
    if ledger.free_bytes is None:
        return f"Asked for {format_bytes(request)}; how much was free is unknown."
    start = f"Asked for {format_bytes(request)}, {format_bytes(ledger.free_bytes)} was free"
    short = request - ledger.free_bytes
    slack += ledger.slack_bytes.get("free_bytes", 0)
    if short <= 0:
        return f"{start} when it was read after the failure: enough for it."
    if short <= slack:
        return f"{start}: short by no more than the rounding of these numbers."
    return f"{start}: {size(short, slack)} short."


def segment_words(incident: Incident, *, rounded_up: bool = False) -> str:
    """What the printed size says about the tensor; "" when no size of a caching allocator's segment was printed.

    The rule is that of the caching allocator (CUDA, HIP and XPU): 2 MiB for up to 1 MiB, 20 MiB for more than that
    and less than 10 MiB, and above that the next multiple of 2 MiB. With `rounded_up` (roundup_power2_divisions)
    only the upper end is said.
    """
    ledger, failure = incident.ledger, incident.failure
    segment = ledger.segment_bytes
    if segment is None or failure.vendor not in _CACHING or failure.format.startswith("A1"):
        return ""
    rule = (
        '"Tried to allocate" is the segment, not the tensor: PyTorch asks the driver for 2.00 MiB for a tensor of up '
        "to 1 MiB, for 20.00 MiB for one of 1 to 10 MiB, and for larger ones it rounds up to 2 MiB."
    )
    slack = ledger.slack_bytes.get("segment_bytes", 0)
    step = 2 * MIB
    if (segment + slack) // step == (segment - slack - 1) // step:
        return (
            f"{format_bytes(segment)} is no multiple of 2 MiB, so it is not the size of a segment; PyTorch up to about "
            "1.3 printed the request itself."
        )
    low, high = (segment - slack - 1) // step * step, (segment + slack) // step * step
    return f"{rule} {_tensor_words(segment, low, high, rounded_up=rounded_up)}"


def _tensor_words(segment: int, low: int, high: int, *, rounded_up: bool) -> str:
    printed = format_bytes(segment)
    if segment == 2 * MIB:
        return f"{printed}: the tensor has at most 1 MiB."
    if rounded_up:
        return f"{printed}: the tensor has at most {format_bytes(high)} (the job's settings round requests up first)."
    if segment == 20 * MIB:
        return f"{printed}: the tensor has between 1 and 10 MiB (or between 18 and 20 MiB)."
    return f"{printed}: the tensor has between {format_bytes(low)} and {format_bytes(high)}."
