"""Records as metrics in base units, by rank and phase: what Prometheus is given."""

from __future__ import annotations

from dataclasses import dataclass, field

from oomph.evidence.run.model import End, Header, Note, OomRecord, PhaseRecord, Run, StepRecord
from oomph.probe.model import Counters

#: Name -> (type, help). Sizes are bytes, times seconds, as Prometheus wants base units.
METRICS: dict[str, tuple[str, str]] = {
    "oomph_run_info": ("gauge", "The run that is recorded; always 1."),
    "oomph_device_capacity_bytes": ("gauge", "Memory of the device."),
    "oomph_allocated_bytes": ("gauge", "Allocated by PyTorch at the end of the last phase or step."),
    "oomph_reserved_bytes": (
        "gauge",
        "Reserved by PyTorch's allocator at the end of the last phase or step.",
    ),
    "oomph_device_free_bytes": ("gauge", "Free on the device, as last read."),
    "oomph_outside_bytes": ("gauge", "This process's memory on the device outside PyTorch, as last read."),
    "oomph_other_processes_bytes": ("gauge", "Memory of other processes on the device, as last read."),
    "oomph_phase_peak_allocated_bytes": (
        "gauge",
        "Highest allocated within a phase, of the first step or later ones.",
    ),
    "oomph_phase_peak_reserved_bytes": (
        "gauge",
        "Highest reserved within a phase, of the first step or later ones.",
    ),
    "oomph_phase_seconds_total": ("counter", "Time spent in a phase."),
    "oomph_host_rss_bytes": ("gauge", "Resident main memory of the process, as last read."),
    "oomph_host_pinned_bytes": ("gauge", "Page-locked main memory of the process, as last read."),
    "oomph_steps_total": ("counter", "Optimizer steps that have completed."),
    "oomph_allocation_retries_total": (
        "counter",
        "Allocations that succeeded only after the cache was freed.",
    ),
    "oomph_out_of_memory_total": ("counter", "Requests that failed."),
    "oomph_notes_total": ("counter", "What was noticed, by code (neighbour, warning.batch, ...)."),
    "oomph_rank_ended": ("gauge", "1 once the rank has ended, by outcome."),
    "oomph_last_record_timestamp_seconds": ("gauge", "When the last record was made."),
}

#: Labels of a sample, in their order.
Labels = tuple[tuple[str, str], ...]


@dataclass
class Metrics:
    """The metrics of one rank, or of several that are told one after the other. A listener."""

    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)
    _base: Labels = ()

    def begin(self, run: Run, header: Header) -> None:
        """A rank begins."""
        self._base = (("run", run.id), ("rank", str(header.rank)))
        info = (("name", run.name), ("host", header.host), ("device", header.device))
        self._set("oomph_run_info", 1, *info)
        self._set("oomph_device_capacity_bytes", header.capacity_bytes)

    def phase(self, record: PhaseRecord) -> None:
        """A phase: its peaks, and what is read at its end."""
        labels = (("phase", record.phase.value), ("step", "first" if record.step <= 0 else "later"))
        counters = record.counters
        peak = max(counters.peak_allocated_bytes, counters.allocated_bytes)
        self._highest("oomph_phase_peak_allocated_bytes", peak, *labels)
        self._highest(
            "oomph_phase_peak_reserved_bytes",
            max(counters.peak_reserved_bytes, counters.reserved_bytes),
            *labels,
        )
        self._add("oomph_phase_seconds_total", record.seconds, ("phase", record.phase.value))
        self._counters(counters)
        if record.host is not None:
            self._set("oomph_host_rss_bytes", record.host.rss_bytes)
            self._set("oomph_host_pinned_bytes", record.host.pinned_bytes)
        self._set("oomph_last_record_timestamp_seconds", record.time)

    def step(self, record: StepRecord) -> None:
        """A step: not every one is recorded, so that its number counts."""
        self._highest("oomph_steps_total", record.step + 1)
        self._counters(record.counters)
        self._set("oomph_last_record_timestamp_seconds", record.time)

    def note(self, record: Note) -> None:
        """Something was noticed."""
        self._add("oomph_notes_total", 1, ("code", record.code))

    def oom(self, record: OomRecord) -> None:
        """A request failed; the allocator counts them, and a record may come twice."""
        self._highest(
            "oomph_out_of_memory_total", max(1, record.counters.ooms), ("phase", record.phase.value)
        )

    def end(self, record: End) -> None:
        """The rank ended."""
        self._set("oomph_rank_ended", 1, ("outcome", record.outcome))
        self._set("oomph_last_record_timestamp_seconds", record.time)

    def _counters(self, counters: Counters) -> None:
        self._set("oomph_allocated_bytes", counters.allocated_bytes)
        self._set("oomph_reserved_bytes", counters.reserved_bytes)
        self._set("oomph_device_free_bytes", counters.free_bytes)
        self._set("oomph_outside_bytes", counters.outside_bytes)
        self._set("oomph_other_processes_bytes", counters.other_processes_bytes)
        self._highest("oomph_allocation_retries_total", counters.retries)

    def _set(self, name: str, value: float | None, *labels: tuple[str, str]) -> None:
        if value is not None:
            self.samples[name, (*self._base, *labels)] = float(value)

    def _highest(self, name: str, value: float, *labels: tuple[str, str]) -> None:
        key = (name, (*self._base, *labels))
        self.samples[key] = max(self.samples.get(key, 0.0), float(value))

    def _add(self, name: str, value: float, *labels: tuple[str, str]) -> None:
        key = (name, (*self._base, *labels))
        self.samples[key] = self.samples.get(key, 0.0) + float(value)


def render(metrics: Metrics) -> str:
    """Prometheus' text format (version 0.0.4): a family's samples together, after its HELP and TYPE."""
    lines = []
    for name, (kind, about) in METRICS.items():
        samples = [(labels, value) for (known, labels), value in metrics.samples.items() if known == name]
        if samples:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{{{_labels(labels)}}} {_number(value)}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)


def _escaped(value: str) -> str:
    value = value.encode("utf-8", "replace").decode("utf-8")
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**63 else repr(value)
