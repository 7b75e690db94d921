"""The answer for people: what is wrong first, each with what it does and the first thing to do."""

from __future__ import annotations

from oomph.diagnose.machine.model import CheckFinding, Checkup, Severity, Told
from oomph.report.clean import clean, cut, flat, without_commands
from oomph.report.doctor import words
from oomph.report.doctor.view import View, prepare
from oomph.report.layout import Style, table, wrap
from oomph.report.options import ReportOptions

_LOOK = {Severity.ERROR: "bad", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
#: Quotes of a finding, sources and characters of a quote that are shown.
_QUOTES, _SOURCES, _QUOTE = 2, 12, 200


def render_text(checkup: Checkup, options: ReportOptions, *, everything: bool = False) -> str:
    """The whole answer, ending in a newline. `everything`: with what was found in order, all quotes and all sources."""
    return _Page(prepare(checkup, options), options, everything).render()


class _Page:
    def __init__(self, view: View, options: ReportOptions, everything: bool) -> None:
        self.view = view
        self.checkup = view.checkup
        self.width = options.columns
        self.style = Style(options.colour)
        self.everything = everything
        #: What the names of all files begin with: it is said once.
        self.folder = words.common_folder(view.checkup)

    def render(self) -> str:
        look = "bad" if self.checkup.exit_code else "good"
        head = [self.style(line, look) for line in wrap(words.headline(self.checkup), self.width)]
        blocks = [head + wrap(flat(self.view.about), self.width)]
        wrong = (*self.view.of(Severity.ERROR), *self.view.of(Severity.WARNING), *self.view.of(Severity.NOTE))
        blocks += [self._finding(one) for one in wrong]
        blocks += [self._notes(), self._untold(), self._clear(), self._read()]
        return without_commands("\n\n".join("\n".join(block) for block in blocks if block)) + "\n"

    def _finding(self, finding: CheckFinding) -> list[str]:
        problem = finding.problem
        lines = [self.style(line, _LOOK[problem.severity]) for line in wrap(words.title(finding), self.width)]
        lines += wrap(problem.says, self.width, "  ")
        lines += self._said("Effect: ", problem.does)
        lines += self._said("First:  ", problem.fix)
        # A line that is to be copied is not broken.
        lines += [
            self.style(f"      {line}".rstrip(), "bold")
            for line in problem.paste.strip("\n").split("\n")
            if line
        ]
        if getattr(problem, "edits", ()):
            lines += self._said("Fix:    ", "--fix makes this change, --diff shows it.")
        lines += self._said("Not:    ", problem.wrong)
        quotes = problem.evidence if self.everything else problem.evidence[:_QUOTES]
        for quote in quotes:
            said = f": {cut(flat(quote.text), _QUOTE)}" if quote.text else ""
            lines += [
                self.style(line, "dim")
                for line in wrap(f"{words.place(quote, self.folder)}{said}", self.width, "  Seen:   ")
            ]
        return lines

    def _said(self, head: str, text: str) -> list[str]:
        return wrap(text, self.width, f"  {head}") if text else []

    def _section(self, title: str, lines: list[str]) -> list[str]:
        return [self.style(title, "heading"), *lines] if lines else []

    def _notes(self) -> list[str]:
        notes = [
            line for note in self.checkup.notes for line in wrap(cut(flat(note), 600), self.width, "  - ")
        ]
        return self._section("Notes", notes)

    def _untold(self) -> list[str]:
        missing = words.missing_rows(self.checkup, everything=self.everything)
        rows = [*_rows(self.checkup.untold), *((name, flat(why)) for name, why in missing)]
        return self._section("Could not tell", table(rows, self.width))

    def _clear(self) -> list[str]:
        clear = self.checkup.clear
        if not clear:
            return []
        if self.everything:
            return self._section("In order", table(_rows(clear), self.width))
        codes = ", ".join(one.code for one in clear)
        return wrap(f"In order: {codes} (--all says why).", self.width)

    def _read(self) -> list[str]:
        read = words.read_words(self.checkup, self.folder)
        shown = read if self.everything else read[:_SOURCES]
        more = f", and {len(read) - len(shown)} more" if len(read) > len(shown) else ""
        head = f"Read in {self.folder}:" if self.folder else "Read:"
        said = f"{head} {', '.join(clean(flat(one)) for one in shown)}{more}."
        lines = wrap(said, self.width) if shown else []
        for one in words.passed_over_words(self.checkup, self.folder):
            lines += wrap(f"Not read: {flat(one)}", self.width)
        return lines


def _rows(several: tuple[Told, ...]) -> list[tuple[str, str]]:
    """Codes and reasons; the same reason of several checks is said once, with at most three codes in a row, so that the
    reasons keep room."""
    reasons: dict[str, list[str]] = {}
    for one in several:
        reasons.setdefault(flat(one.why), []).append(one.code)
    return [
        (", ".join(codes[start : start + 3]), why if start == 0 else "the same")
        for why, codes in reasons.items()
        for start in range(0, len(codes), 3)
    ]
