"""What a rule is.

A rule stands for one class of failure. It has a stable code, a name that states the problem, its documentation, and
`check`, which looks at a Case and answers with a Match, with the reason why it set the cause aside (RuledOut), or with
None (it has nothing to say).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty, Finding, RuledOut
from oomph.evidence.model import Quote

#: Scores order findings. Each certainty has a band of one; a rule places itself inside the band.
BANDS = {Certainty.CERTAIN: 3.0, Certainty.LIKELY: 2.0, Certainty.POSSIBLE: 1.0}


@dataclass(frozen=True)
class Match:
    """A rule's answer when it applies.

    `weight` (0 to 1) places the finding among others of the same certainty: the more specific the evidence, the
    higher. `numbers` are bytes or counts by name; `actions` are action codes, first first; empty means the rule's own.
    """

    certainty: Certainty
    says: str
    weight: float = 0.5
    numbers: Mapping[str, int] = field(default_factory=dict)
    evidence: tuple[Quote, ...] = ()
    actions: tuple[str, ...] = ()


class Rule(ABC):
    """Base of all rules. Subclasses set every class attribute; the texts are documentation for people."""

    code: ClassVar[str]
    cause: ClassVar[str]
    name: ClassVar[str]
    means: ClassVar[str]
    decisive_evidence: ClassVar[str]
    first_action: ClassVar[str]
    verify: ClassVar[str]
    wrong_advice: ClassVar[str]
    actions: ClassVar[tuple[str, ...]]
    #: False for a rule that stands by itself where the sizes of the message contradict each other.
    rests_on_sizes: ClassVar[bool] = True

    @abstractmethod
    def check(self, case: Case) -> Match | RuledOut | None:
        """Looks at one incident."""

    def finding(self, case: Case, match: Match) -> Finding:
        """The coded finding of a match."""
        if self.rests_on_sizes and case.ledger.problems and match.certainty is Certainty.LIKELY:
            says = f"{match.says} But the message's sizes contradict each other (see the notes)."
            match = replace(match, certainty=Certainty.POSSIBLE, says=says, weight=min(match.weight, 0.4))
        return Finding(
            code=self.code,
            cause=self.cause,
            name=self.name,
            certainty=match.certainty,
            says=match.says,
            phase=case.phase,
            rank=case.rank,
            numbers=dict(match.numbers),
            evidence=match.evidence or (case.failure.quote,),
            actions=match.actions or self.actions,
            score=BANDS[match.certainty] + 0.99 * max(0.0, min(1.0, match.weight)),
        )
