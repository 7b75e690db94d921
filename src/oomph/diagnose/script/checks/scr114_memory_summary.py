"""memory_summary() whose text nobody sees."""

from __future__ import annotations

import libcst as cst

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.model import Edit, ScriptProblem
from oomph.evidence.script.source import Script

_NAMES = ("torch.cuda.memory_summary", "torch.cuda.memory.memory_summary")


class MemorySummaryNotPrinted(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR114"
    cause = "memory_summary_not_printed"
    name = "memory-summary-not-printed"
    means = (
        "torch.cuda.memory_summary() returns a text and prints nothing: as a line of its own it does nothing."
    )
    decisive_evidence = "What the call returns is used by nothing."
    first_action = "print(torch.cuda.memory_summary())."
    verify = "The table is in the log."
    wrong_advice = (
        "memory_summary as the profiler: the timeline comes from torch.cuda.memory._record_memory_history and "
        "_dump_snapshot."
    )

    def check(self, script: Script) -> Found:
        for call in script.called(*_NAMES):
            if not isinstance(script.parent(call), cst.Expr) or script.places:
                continue
            start, end = script.span(call)
            yield ScriptProblem(
                says="What torch.cuda.memory_summary() returns is thrown away.",
                does="It returns the table as text and prints nothing.",
                fix="Print it.",
                paste="print(torch.cuda.memory_summary())",
                subject="memory_summary",
                severity=Severity.WARNING,
                evidence=(script.quote(call),),
                edits=(Edit(start, start, "print("), Edit(end, end, ")")),
            )
