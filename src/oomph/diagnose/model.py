"""What was concluded: the types that `report` renders and that the library returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from oomph.diagnose.planned import PlannedJob, PredictedSaving
from oomph.evidence.model import Evidence, Fact, Failure, Frame, Quote, Traceback
from oomph.memory.ledger import Ledger
from oomph.phases import Phase


class Certainty(str, Enum):
    """How sure a finding is. `certain`: the text says it. `likely`: evidence of its own and nothing against it.
    `possible`: consistent with the evidence, not proved by it."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"

    def __str__(self) -> str:
        return self.value


class Outcome(str, Enum):
    """How the job ended as far as the input says.

    `failed`: an out-of-memory (or what a rule reports as a failure) ended it. `recovered`: OOMs were caught and the
    job went on or ended well. `no_oom`: no memory failure in the input (another error may be there).
    """

    FAILED = "failed"
    RECOVERED = "recovered"
    NO_OOM = "no_oom"


@dataclass(frozen=True)
class PhaseVerdict:
    """The phase, how it is known, and by what.

    `evidence` is "frame", "log_line", "snapshot", "recorded" (by the run itself) or "none" (only with unknown). `why`
    is one sentence. `first_step` is True when the log shows that no optimizer step had been finished, False when it
    shows one, None when it does not.
    `recompute` is True for a checkpoint's recompute inside backward.
    """

    phase: Phase
    evidence: str
    why: str
    frame: Frame | None = None
    quote: Quote | None = None
    first_step: bool | None = None
    recompute: bool = False


@dataclass(frozen=True)
class Incident:
    """One OOM (or look-alike) of one rank, however often it was printed.

    `status` is "fatal", "caught" (the job says that it goes on, or goes on) or "consequence" (died of another's
    failure). `copies` are the other prints of the same failure.
    """

    failure: Failure
    status: str
    rank: int | None
    phase: PhaseVerdict
    ledger: Ledger
    traceback: Traceback | None = None
    copies: tuple[Failure, ...] = ()
    why_status: str = ""


@dataclass(frozen=True)
class RankVerdict:
    """Who failed first and how that is known, who died of it.

    `failed` are the ranks with a memory failure of their own, in input order; `consequences` those that died of it,
    each with the reason as one phrase.
    """

    first: int | None
    how: str
    failed: tuple[int, ...] = ()
    consequences: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RuledOut:
    """A cause that was considered and set aside, with the number that did it."""

    cause: str
    why: str


@dataclass(frozen=True)
class Finding:
    """A coded diagnosis. `cause` is the rule's class id; `numbers` are bytes (or counts) by name, each printed or
    derived; `actions` are action codes, first first; `says` is the finding in one or two sentences with its numbers."""

    code: str
    cause: str
    name: str
    certainty: Certainty
    says: str
    phase: Phase = Phase.UNKNOWN
    rank: int | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)
    evidence: tuple[Quote, ...] = ()
    actions: tuple[str, ...] = ()
    score: float = 0.0


@dataclass(frozen=True)
class Step:
    """One thing to do: `code` of the action, the sentence, an optional command or code to paste, and for each
    outcome what comes next. `frees_bytes` is what it saves, only where the log's figures and arithmetic give it.
    `predicted` is what a plan of the job says that it saves; None without a plan."""

    code: str
    title: str
    text: str
    paste: str = ""
    frees_bytes: int | None = None
    outcomes: tuple[tuple[str, str], ...] = ()
    predicted: PredictedSaving | None = None


@dataclass(frozen=True)
class Advice:
    """The first step (one change of one variable), what to collect if the evidence is thin, what not to do."""

    first: Step
    then: tuple[Step, ...] = ()
    avoid: tuple[str, ...] = ()
    collect: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """The answer of `explain`.

    `incident` is the failure that is explained (None with outcome `no_oom`), `incidents` all of them. `findings` are
    ranked, best first. `other_errors` are uncaught errors that are not memory. `notes` are facts about the input
    (truncated, doctored numbers, artefacts), a sentence each. `phase` is the incident's, or with `no_oom` the phase
    of the error that ended the job, if there is one. `plan` is the job that the advice was held against, where the log
    shows it or it was given; `no_plan` says why there is none where one was looked for.
    """

    outcome: Outcome
    summary: str
    incident: Incident | None
    incidents: tuple[Incident, ...]
    ranks: RankVerdict
    findings: tuple[Finding, ...]
    ruled_out: tuple[RuledOut, ...]
    evidence: Evidence
    advice: Advice | None = None
    job: tuple[Fact, ...] = ()
    other_errors: tuple[Quote, ...] = ()
    notes: tuple[str, ...] = ()
    phase: PhaseVerdict | None = None
    plan: PlannedJob | None = None
    no_plan: str = ""

    @property
    def exit_code(self) -> int:
        """0: nothing failed for lack of memory (or the job recovered); 1: it did."""
        return 1 if self.outcome is Outcome.FAILED else 0
