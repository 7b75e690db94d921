"""What happened to memory between runs: the numbers that a suspect has to agree with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from oomph.diagnose.runs.model import MemoryChange, RunFacts
from oomph.memory.categories import Category
from oomph.phases import Phase

#: Differences up to this are nothing: allocators round, kernels choose workspaces. Of small numbers, a larger share.
_SHARE, _LEAST_BYTES, _SMALL_SHARE = 0.01, 256 << 10, 0.05
#: Numbers that differ more between equal runs: what is cached depends on the order of requests, what others have and
#: main memory on who else is there.
_SHARES = {"peak.reserved": 0.03, "free.least": 0.03, "outside": 0.05, "other_processes": 0.05, "gpu.strangers": 0.05,
           "host.rss": 0.15, "host.pinned": 0.15}  # fmt: skip
#: Numbers beside the phases' peaks, with their names for people.
PARTS = {
    "alive.before": "before the first forward (parameters)",
    "alive.between": "before later forwards (and states)",
    "alive.added": "added by the first step (states)",
    "forward.kept": "kept by forward (activations)",
    "backward.left": "left by backward (gradients)",
    "peak.reserved": "highest reserved",
    "ranks.spread": "between the ranks' highest peaks",
    "outside": "outside PyTorch, this process",
    "other_processes": "other processes",
    "gpu.strangers": "strangers on the GPUs",
    "free.least": "least free",
    "growth.per_step": "growth per step",
    "host.rss": "host RAM of the process",
    "host.pinned": "pinned host RAM",
    "capacity": "capacity",
}
_COUNTS = {"retries": "allocation retries", "ooms": "failed requests", "steps": "optimizer steps"}


@dataclass(frozen=True)
class Situation:
    """A run held against others. `before` is what most others are; `memory` has each number's change by its key."""

    before: RunFacts
    after: RunFacts
    others: tuple[RunFacts, ...]
    memory: Mapping[str, MemoryChange]

    def change(self, key: str) -> int | None:
        """By how much a number changed; None where one run does not know it, 0 where it stayed within its noise."""
        found = self.memory.get(key)
        if found is None or found.difference is None:
            return None
        return found.difference if found.beyond else 0

    def phase_change(self, phase: str) -> int | None:
        """As `change`, of a phase's peak; of the phase in which the run failed, with the request that failed."""
        return self.change(f"phase.{phase}.peak")

    @property
    def peak_change(self) -> int | None:
        """Of the highest peak."""
        return self.change("peak")

    @property
    def changed(self) -> bool | None:
        """Whether GPU memory changed anywhere, the job's own or others'; None where nothing can be compared."""
        known = [
            each
            for each in self.memory.values()
            if each.is_bytes
            and each.difference is not None
            and not each.key.startswith(("host.", "capacity"))
        ]
        return any(each.beyond for each in known) if known else None

    def bytes_before(self, key: str) -> int | None:
        """A number of the others."""
        found = self.memory.get(key)
        return None if found is None else found.before

    def number(self, key: str) -> tuple[float | None, float | None]:
        """A fact of both sides as numbers."""
        return self.before.number(key), self.after.number(key)


def situation(run: RunFacts, others: Sequence[RunFacts]) -> Situation:
    """How memory of `run` differs from that of the others (at least one)."""
    memory: dict[str, MemoryChange] = {}
    for phase in Phase:
        name = phase.value
        for key, label in (
            (f"phase.{name}.first.peak", f"{name}, first step"),
            (f"phase.{name}.later.peak", f"{name}, later steps"),
            (f"phase.{name}.peak", name),
            (f"phase.{name}.reserved", f"{name}, reserved"),
        ):
            _add(memory, key, label, run, others)
    _add(memory, "peak", "highest peak", run, others)
    for key, label in PARTS.items():
        _add(memory, key, label, run, others)
    for category in Category:
        _add(memory, f"category.{category.value}", f"{category.value}, when it failed", run, others)
    for key, label in _COUNTS.items():
        _add(memory, key, label, run, others, is_bytes=False)
    return Situation(others[0], run, tuple(others), memory)


def _add(
    memory: dict[str, MemoryChange],
    key: str,
    label: str,
    run: RunFacts,
    others: Sequence[RunFacts],
    *,
    is_bytes: bool = True,
) -> None:
    after = wanted(run, key)
    known = [value for value in (wanted(other, key) for other in others) if value is not None]
    if after is None and not known:
        return
    before = round(median(known)) if known else None
    low, high = (min(known), max(known)) if known else (None, None)
    beyond = False
    if after is not None and low is not None and high is not None:
        most = max(abs(low), abs(high), abs(after))
        share = _SHARES.get(key, 0.03 if key.endswith(".reserved") else _SHARE)
        room = max(share * most, min(_LEAST_BYTES, _SMALL_SHARE * most)) if is_bytes else 0
        beyond = after > high + room or after < low - room
    memory[key] = MemoryChange(key, label, before, after, low, high, beyond, is_bytes)


def wanted(run: RunFacts, key: str) -> int | None:
    """A number of bytes that the run had, or wanted: of the phase in which it failed, its peak and the request."""
    value = run.number(key)
    request = run.number("failed.request")
    phase = run.text("failed.phase")
    if value is not None and request is not None and phase is not None:
        step = run.number("failed.step")
        which = "first" if step is not None and step <= 0 else "later"
        if key in (f"phase.{phase}.peak", f"phase.{phase}.{which}.peak"):
            value += request
        elif key == "peak":
            value = max(value, (run.number(f"phase.{phase}.peak") or 0) + request)
    return None if value is None else round(value)
