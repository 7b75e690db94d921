"""What a plan of the job adds to a diagnosis: the job, how plan and log agree, and what a change is predicted to free.

Only words and numbers: whoever computes them stands in `remedy`, and is loaded where there is a job.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oomph.evidence.model import Quote


@dataclass(frozen=True)
class JobField:
    """A field of the job ("batch.micro"), its value as text, and who says it: the key and text, with the line of the
    log where it stands (None: a file that was given, or arithmetic on what others say)."""

    path: str
    value: str
    says: str
    quote: Quote | None = None


@dataclass(frozen=True)
class Agreement:
    """The plan's peak in the failing phase held against the log. Sizes are bytes.

    `verdict`: "agrees" (what was needed at the failure lies in the interval), "on_the_way" (less was needed, and the
    failure came before the peak: the log neither confirms nor contradicts the plan), "more" and "less" (the log has
    more, or less, than the plan allows), "unknown" (the log does not say what was allocated, or the phase is not
    known or not planned). `needed_bytes`: allocated and the request that failed.
    """

    verdict: str
    says: str
    predicted_bytes: int | None = None
    low_bytes: int | None = None
    high_bytes: int | None = None
    needed_bytes: int | None = None

    @property
    def doubtful(self) -> bool:
        """Whether plan and log contradict each other, which makes predicted savings doubtful."""
        return self.verdict in ("more", "less")


@dataclass(frozen=True)
class PredictedSaving:
    """What a step is predicted to free in the failing phase, allocated, in bytes (below 0: it needs more; None: nobody
    predicts it, and `says` tells why). `missing_bytes` is what the failure lacked. `enough`: True where that much is
    freed and the changed job's peak surely fits; False where one of the two surely is not so; None in between.
    `peak_bytes`: the changed job's highest peak. `change` is what was planned, in words."""

    change: str
    says: str
    frees_bytes: int | None = None
    missing_bytes: int | None = None
    enough: bool | None = None
    peak_bytes: int | None = None
    doubtful: bool = False

    @property
    def frees_nothing(self) -> bool:
        """Whether the step is predicted to free nothing where the job failed."""
        return self.frees_bytes is not None and self.frees_bytes <= 0


@dataclass(frozen=True)
class PlannedJob:
    """The job that the log shows, or that was given. `assumptions`: what stood in for what nobody said."""

    fields: tuple[JobField, ...]
    agreement: Agreement
    assumptions: tuple[str, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())
