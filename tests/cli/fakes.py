"""An engine, rules and renderers that record what the command line asks of them."""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any

import pytest

from oomph.diagnose.model import Diagnosis, Incident, Outcome, PhaseVerdict, RankVerdict
from oomph.evidence.model import Document, Evidence, Failure, Kind, Position, Quote
from oomph.memory.ledger import Ledger
from oomph.phases import Phase


@dataclass(frozen=True)
class FakeRule:
    code: str
    cause: str
    name: str
    means: str = (
        "A sentence that is long enough to be wrapped when it is printed on a terminal of eighty columns."
    )
    decisive_evidence: str = "a number"
    first_action: str = "one change"
    verify: str = "look again"
    wrong_advice: str = "buy a bigger card"


RULES = (
    FakeRule("OOM201", "fragmentation", "cached memory is in pieces"),
    FakeRule("OOM202", "other_process", "another process holds the card"),
    FakeRule("OOM301", "host_ram", "host memory ran out"),
)


def failure_of(rank: int) -> Incident:
    quote = Quote("train.log", 7, "CUDA out of memory.")
    failure = Failure(
        format="F6_torchOOM",
        kind=Kind.DEVICE_OOM,
        vendor="nvidia",
        position=Position(0, 6),
        end=Position(0, 6),
        quote=quote,
        rank=rank,
    )
    verdict = PhaseVerdict(Phase.UNKNOWN, "none", "nothing proves a phase")
    return Incident(failure, status="fatal", rank=rank, phase=verdict, ledger=Ledger())


def diagnosis(outcome: Outcome = Outcome.FAILED, rank: int = 2) -> Diagnosis:
    incident = failure_of(rank) if outcome is Outcome.FAILED else None
    return Diagnosis(
        outcome=outcome,
        summary="rank 2 ran out of memory",
        incident=incident,
        incidents=(incident,) if incident else (),
        ranks=RankVerdict(first=rank, how="the only one", failed=(rank,), consequences={3: "NCCL abort"}),
        findings=(),
        ruled_out=(),
        evidence=Evidence(documents=(Document("train.log", [], size_bytes=1234),)),
    )


@dataclass
class FakeEngine:
    """Stands in for `oomph.api` and `oomph.report`: returns `answer`, or raises it when it is an exception."""

    answer: Any = field(default_factory=diagnosis)
    asked: list[dict[str, Any]] = field(default_factory=list)
    options: list[Any] = field(default_factory=list)
    text: str = "the answer"

    def explain(
        self, paths, *, select=(), ignore=(), rank=None, progress=None, stdin=None, job=None, elsewhere=None
    ):
        asked = {"select": select, "ignore": ignore, "rank": rank, "stdin": stdin, "job": job}
        assert elsewhere is None
        self.asked.append({"paths": tuple(paths), **asked})
        if progress is not None:
            progress(1, 2)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def renderer(self, name: str):
        def render(diagnosis, options, rules=()):
            self.options.append(options)
            return f"{name}: {self.text}"

        return render

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import sys

        def module(name: str, **content: Any) -> None:
            fake = types.ModuleType(name)
            fake.__dict__.update(content)
            monkeypatch.setitem(sys.modules, name, fake)

        module("oomph.api", explain=self.explain)
        module("oomph.diagnose.rules", all_rules=lambda: RULES)
        module("oomph.diagnose.machine.checks", all_checks=tuple)
        module("oomph.diagnose.script.checks", all_script_checks=tuple)
        module("oomph.report.options", ReportOptions=types.SimpleNamespace)
        for name in ("text", "json", "markdown", "sarif", "github"):
            module(f"oomph.report.{name}", **{f"render_{name}": self.renderer(name)})
