"""The code that was run."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind


class Code(Kind):
    """Commits and files that differ from them."""

    name = "code"
    order = 34
    keys = (r"git\.(?:commit|dirty|changed)",)

    def judge(self, change: Change, situation: Situation) -> Judged:
        """It may have changed anything; what it changed is to be read."""
        del situation
        if change.key == "git.commit":
            before, after = str(change.before or "")[:12], str(change.after or "")[:12]
            return Judged(
                f"the code may do anything else: git diff {before} {after}"
                if before and after
                else "the code may do anything else",
                Suspicion.POSSIBLE,
                weight=5.0,
            )
        return Judged(
            "files that no commit has were run: what they change is known to nobody but who has them",
            Suspicion.POSSIBLE,
            weight=5.5 if change.key == "git.changed" else 4.5,
        )
