"""What a renderer may be asked for. Options change how an answer is shown, never the answer."""

from __future__ import annotations

from dataclasses import dataclass

#: Below this many columns nothing is laid out any more; narrower terminals get lines of this width.
MIN_WIDTH = 40


@dataclass(frozen=True)
class ReportOptions:
    """How a diagnosis is rendered.

    `width` is columns (text only). `colour` allows ANSI codes (text only), `unicode` characters outside ASCII in what
    oomph draws itself. `all_incidents` lists every OOM and not only the explained one. `rank` shows the failures of
    one global rank. `explain_evidence` numbers and prints the quotes that the statements rest on. `redact` takes user
    names, host names, paths, addresses and secrets out of everything that came from the input.
    """

    width: int = 80
    colour: bool = False
    all_incidents: bool = False
    rank: int | None = None
    explain_evidence: bool = False
    redact: bool = False
    unicode: bool = True

    @property
    def columns(self) -> int:
        """`width`, but never less than can be laid out."""
        return max(MIN_WIDTH, self.width)
