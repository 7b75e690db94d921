"""All checks of one run."""

from __future__ import annotations

from oomph.diagnose.verify.checks import CHECKS
from oomph.diagnose.verify.model import Answer, Verification
from oomph.diagnose.verify.settings import Settings
from oomph.diagnose.verify.view import Asked
from oomph.evidence.run.data import RunData
from oomph.predict.model import Plan


def verify(run: RunData, settings: Settings | None = None, plan: Plan | None = None) -> Verification:
    """The answers of the checks that are chosen, in the order of a run's life. `plan` is the prediction that the run is
    held against."""
    chosen = settings or Settings()
    asked = Asked(run, chosen, plan)
    answers: list[Answer] = []
    for check in CHECKS:
        if (chosen.select and check.name not in chosen.select) or check.name in chosen.ignore:
            continue
        answers.extend(check.ask(asked))
    return Verification(
        run=run.run.id,
        path=run.path,
        outcome=run.outcome.value,
        answers=tuple(answers),
        notes=run.notes,
        strict=chosen.strict,
    )
