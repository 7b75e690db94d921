"""Shell text as logical lines with their quotes: continued lines and open quotes joined, here-documents apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Line, Quote

#: A shell, or what hands a script to one, as a command.
_READS = re.compile(r"(?:^|[|;&(])\s{0,8}(?:sudo\s{1,4})?(?:bash|sh|zsh|ssh|sbatch|srun)\b")
_HEREDOC = re.compile(r"(?<!<)<<(-?)\s{0,4}(['\"\\]?)([A-Za-z_][\w.-]{0,40})['\"]?")
#: More lines than this are not joined to one, and a quote is not followed further than that.
_MOST_JOINED = 400
_MOST_QUOTED = 80
_DEEPEST = 4
#: A longer text is no script that a person wrote.
MOST_LINES = 20_000


def statements(part: Part, begin: int = 0, depth: int = 0) -> Iterator[tuple[str, Quote]]:
    """Logical lines with their quotes, from line `begin` of the part on: continued lines and open quotes joined,
    documents for other programs left out, those for a shell, ssh or Slurm read."""
    lines = part.lines
    at = begin
    plain_until = 0
    while at < min(len(lines), MOST_LINES):
        first = lines[at]
        text, following, closed = _joined(lines, at, quotes=at >= plain_until)
        if not closed:
            plain_until = following + _MOST_QUOTED  # looked at already: no quote closes there
        at = following
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        quote = Quote(part.source, first.number, re.sub(r"\s+", " ", text.strip())[:400])
        heredoc = _HEREDOC.search(text)
        if heredoc is not None and "<<<" not in text:
            end = at
            word = heredoc[3]
            while end < len(lines) and lines[end].text.strip() != word:
                end += 1
            body = lines[at:end]
            yield text[: heredoc.start()] + text[heredoc.end() :], quote
            if depth < _DEEPEST and _READS.search(text[: heredoc.start()]) is not None:
                yield from statements(replace(part, lines=list(body)), depth=depth + 1)
            at = end + 1
            continue
        yield text, quote


def _joined(lines: Sequence[Line], at: int, *, quotes: bool) -> tuple[str, int, bool]:
    """A logical line from `at` on, the index behind it, and whether its quotes close."""
    pieces: list[str] = []
    begin = at
    sign = ""
    while at < len(lines) and at - begin < _MOST_JOINED:
        text = lines[at].text.rstrip()
        at += 1
        continued = text.endswith("\\") and not text.endswith("\\\\")
        if continued:
            text = text[:-1]
        elif not sign and pieces and text.lstrip().startswith("#") and at < len(lines):
            continue  # a comment between continued lines (Dockerfiles have them)
        pieces.append(text + (" " if continued else "\n"))
        if quotes and (sign or "'" in text or '"' in text):
            sign = _open_quote(text, sign)
        if sign and at - begin >= _MOST_QUOTED:
            break
        if not continued and not sign:
            return "".join(pieces).rstrip("\n"), at, True
    if not sign:
        return "".join(pieces).rstrip("\n"), at, True
    # A quote that never closes is no quote: the first line alone counts.
    return lines[begin].text.rstrip().rstrip("\\"), begin + 1, False


def _open_quote(text: str, sign: str) -> str:
    """The quote that is open behind `text`, where `sign` was open before it."""
    escaped = False
    before = " "
    for letter in text:
        if escaped:
            escaped = False
        elif letter == "\\" and sign != "'":
            escaped = True
        elif sign:
            if letter == sign:
                sign = ""
        elif letter in "'\"":
            sign = letter
        elif letter == "#" and before in " \t;":
            return ""
        before = letter
    return sign
