"""The part of a checkup that reports show: cleaned, without secrets, and redacted if asked for.

Of the environment only the names of what was read are left: what a check did not put into its answer is in no report.
"""

from __future__ import annotations

from dataclasses import dataclass

from oomph.diagnose.machine.model import CheckFinding, Checkup, Severity, Told
from oomph.evidence.environment.model import Environment
from oomph.evidence.model import Quote
from oomph.report.clean import clean
from oomph.report.doctor.words import machine_words
from oomph.report.options import ReportOptions
from oomph.report.view import ShownText, head, new_redactor, strings

_OWN = {
    CheckFinding: frozenset(("code", "cause", "name")),
    Told: frozenset(("code", "cause", "name", "state")),
}


@dataclass(frozen=True)
class View:
    """`about` says in a sentence what machine it is; `checkup.environment` has no facts any more."""

    checkup: Checkup
    about: str

    def of(self, severity: Severity) -> tuple[CheckFinding, ...]:
        """The findings of one severity."""
        return tuple(one for one in self.checkup.findings if one.problem.severity is severity)


def prepare(checkup: Checkup, options: ReportOptions) -> View:
    """The view that every renderer of this package shows."""
    environment = checkup.environment
    # Of the live machine, a source is what was asked and no file that somebody named.
    pairs = () if environment.live else (*environment.sources, *environment.passed_over)
    lean = Checkup(
        environment=Environment(
            live=environment.live,
            sources=environment.sources,
            passed_over=environment.passed_over,
            missing=environment.missing,
        ),
        findings=checkup.findings,
        clear=checkup.clear,
        untold=checkup.untold,
        notes=checkup.notes,
    )
    about = machine_words(environment, named=not options.redact)
    text = _Text(new_redactor(options), _use)
    if text.redactor is not None:
        text.redactor.learn_inputs(clean(name) for name, _ in pairs)
        if environment.hostname is not None:
            text.redactor.learn(f"hostname={environment.hostname.value}")
        for string in dict.fromkeys(strings((lean, about))):
            text.redactor.learn(head(clean(string)))
    return View(_with_names(text, lean), text.apply(about))


def _with_names(text: ShownText, checkup: Checkup) -> Checkup:
    """Sources are pairs in which only the first is a file's name."""
    shown = text.apply(checkup)
    environment = checkup.environment

    def named(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple((str(text.walk(name, "path")), str(text.walk(what, "text"))) for name, what in pairs)

    return Checkup(
        environment=Environment(
            live=environment.live,
            sources=named(environment.sources),
            passed_over=named(environment.passed_over),
            missing=shown.environment.missing,
        ),
        findings=shown.findings,
        clear=shown.clear,
        untold=shown.untold,
        notes=shown.notes,
    )


class _Text(ShownText):
    """Secrets are never shown, whatever was asked for: people paste whole environments."""

    def _shown(self, value: str, use: str) -> str:
        shown = super()._shown(value, use)
        if self.redactor is not None or use != "text":
            return shown
        from oomph.report.redact import without_secrets

        return without_secrets(shown)


def _use(owner: object, field: str) -> str:
    if type(owner) is Quote and field == "source":
        return "path"
    return "own" if field in _OWN.get(type(owner), ()) else "text"
