"""What a source puts its answers into, and the time that all of them have."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from oomph.recording.fingerprint.secrets import masked

#: Longest value and name, and how many values a fingerprint has at most.
LONGEST, LONGEST_NAME, MOST = 500, 200, 4000


@dataclass
class Found:
    """Values by dotted name, what is missing and why, and when to stop looking (seconds of a monotonic clock)."""

    seconds: float = 0.08
    clock: Callable[[], float] = time.monotonic
    values: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    until: float = 0.0

    def __post_init__(self) -> None:
        self.until = self.clock() + self.seconds

    def put(self, name: str, value: object) -> None:
        """Keeps a value as text: one line, cut to a length, masked where it looks like a secret. None is not kept."""
        if value is None or len(self.values) >= MOST:
            return
        name = _flat(name)[:LONGEST_NAME]
        text = masked(name, _flat(str(value)[: 4 * LONGEST]))
        self.values[name] = text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."

    def miss(self, name: str, why: str) -> None:
        """Says why something could not be learned."""
        self.missing[_flat(name)[:LONGEST_NAME]] = _flat(why)[:LONGEST]

    @property
    def late(self) -> bool:
        """Whether the time is over: what costs more stops, and says so."""
        return self.clock() > self.until


def _flat(text: str) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
