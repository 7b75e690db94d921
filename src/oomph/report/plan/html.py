"""The answer as one page that needs nothing else: no network, no other file, no script."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files

from oomph import __version__
from oomph.predict.model import Plan, RankPlan
from oomph.report.clean import clean, flat
from oomph.report.plan import words
from oomph.report.plan.job_words import model_words

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="oomph {version}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
{header}
</header>
<main>
{body}
</main>
<footer>
<p class="quiet">oomph {version}.</p>
</footer>
</body>
</html>
"""


def render_html(plan: Plan, shown: RankPlan | None = None) -> str:
    """The page. Every name in it is shown as it is; the content security policy lets nothing run or be fetched."""
    style = (files("oomph.report.snapshot") / "page" / "style.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    source = f"'sha256-{digest}'"
    policy = f"default-src 'none'; style-src {source}; img-src data:; base-uri 'none'; form-action 'none'"
    title = f"GPU memory: {clean(model_words(plan.job))}"
    css = "verdict" if words.exit_code(plan) else "verdict fine"
    header = [
        _element("h1", title),
        f'<div class="{css}"><p>{_element("strong", words.headline(plan, shown))}</p>',
        f"{_element('p', words.context(plan), 'quiet')}</div>",
    ]
    body = _rank(plan, shown or plan.worst) if plan.ranks else []
    body.append(_section("Host RAM of one machine", _items(words.host_words(plan))))
    body.append(_section("What this rests on", _items([*plan.assumptions, *plan.notes])))
    return _PAGE.format(
        policy=escape(policy),
        version=escape(__version__),
        title=escape(title),
        style=style,
        header="\n".join(header),
        body="\n".join(part for part in body if part),
    )


def _rank(plan: Plan, rank: RankPlan) -> list[str]:
    parts = []
    if len(plan.ranks) > 1:
        parts.append(_section("All ranks", _table(words.rank_rows(plan), "lrrll")))
    peaks = _table(words.phase_rows(plan, rank), "lrrrl")
    told = [text for text in (words.allocator_words(rank), words.end_words(rank)) if text]
    parts.append(_section(f"Peaks of {rank.ranks}", peaks + "".join(_element("p", text) for text in told)))
    shown = words.shown_peak(plan, rank)
    for peak in (shown, *(peak for peak in rank.phases.values() if peak is not shown)):
        rows = words.term_rows(peak, pages=True)
        if rows:
            where = _element("p", words.place(peak), "quiet") if peak.where else ""
            categories = _table(words.category_rows(peak), "lrr")
            inner = f"{where}{categories}{_table(rows, 'rrlll')}"
            parts.append(_section(f"What is alive at the peak {words.phase_of(peak.phase)}", inner))
    parts.append(_section("Outside PyTorch", _items(words.outside_words(plan, rank))))
    return parts


def _element(name: str, text: str, css: str = "") -> str:
    chosen = f' class="{css}"' if css else ""
    return f"<{name}{chosen}>{escape(clean(text))}</{name}>"


def _table(rows: Sequence[Sequence[str]], numbers: str) -> str:
    """Rows as a table, the first of them heads; `numbers` has an "r" for each column of numbers."""
    css = ["number" if side == "r" else "" for side in numbers[: len(rows[0])]] if rows else []
    lines = []
    for place, row in enumerate(rows):
        name = "td" if place else "th"
        cells = "".join(_element(name, cell, one) for cell, one in zip(row, css, strict=False))
        lines.append(f"<tr>{cells}</tr>")
    if not lines:
        return ""
    inner = "\n".join(lines[1:])
    return f'<div class="scroll"><table><thead>{lines[0]}</thead>\n<tbody>{inner}</tbody></table></div>'


def _section(title: str, body: str) -> str:
    return f"<section>{_element('h2', title)}\n{body}</section>" if body else ""


def _items(texts: Sequence[str]) -> str:
    items = "".join(_element("li", flat(text)) for text in texts)
    return f"<ul>{items}</ul>" if items else ""
