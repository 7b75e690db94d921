"""The parts of the logs that are missing."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.phases import Phase
from oomph.remedy.actions.base import Action

_PASTE = (
    'for f in <logs of all ranks>; do echo "== $f"; head -n 50 "$f"; tail -n 200 "$f"; done > context.txt\n'
    "env | grep -E '^(PYTORCH|CUDA|NCCL|HIP)' >> context.txt\npython -m torch.utils.collect_env >> "
    "context.txt"
)


class CollectContext(Action):
    """Beginning and end of every rank's log, and the environment."""

    code = "collect-context"
    title = "Collect the beginning and the end of every rank's log, and the environment"

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        missing = []
        if not case.frames:
            missing.append("the traceback of the failure")
        if case.phase is Phase.UNKNOWN:
            missing.append("what the job was doing")
        said = f"This input lacks {' and '.join(missing)}. " if missing else ""
        text = (
            f"{said}The first 50 lines tell the settings, the last 200 the failure; the rank that failed "
            "first is often not the one whose log one looks at."
        )
        return self.make(text, _PASTE)
