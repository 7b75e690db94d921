"""`limit`."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.diagnose.verify.checks.bound import under
from oomph.diagnose.verify.model import Answer, Status
from oomph.diagnose.verify.view import Asked


class Limits:
    """No peak of a phase was above the limit that was given for it. Fails for a recorded peak above it, and where a
    request that failed would have gone above it; passes for a run that ended in order and stayed under it."""

    name = "limit"

    def ask(self, asked: Asked) -> Iterable[Answer]:
        """One answer for each limit."""
        if not asked.settings.limits:
            return [Answer(self.name, Status.SKIPPED, "no limit was given (--limit backward=30GiB)")]
        return [under(self.name, limit.subject, asked, limit) for limit in asked.settings.limits]
