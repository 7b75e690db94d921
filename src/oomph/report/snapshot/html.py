"""The whole answer as one HTML file that needs nothing else: no network, no other file, no library.

What is drawn comes from the analyses (memory over time, the segments, the stacks), what is written from the report.
All names in it are those of a file that anybody may have written: text is escaped, and the page's content security
policy runs the one script and the one style sheet that are in it, by their hashes, and fetches nothing.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from oomph import __version__
from oomph.diagnose.snapshot.model import SnapshotReport
from oomph.memory.stacks import Frame
from oomph.report.clean import flat
from oomph.report.options import ReportOptions
from oomph.report.snapshot.html_data import Drawing, drawing
from oomph.report.snapshot.html_text import footer_html, header_html, sections_html
from oomph.report.snapshot.options import SnapshotOptions
from oomph.report.snapshot.view import prepare, shown_text
from oomph.report.view import ShownText

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

#: Stacks in the table of a device; the flame graph has all.
HOLDERS = 50

#: In this order they are one script.
_SCRIPTS = ("core.js", "timeline.js", "pointing.js", "segments.js", "flame.js", "main.js")


def render_html(
    report: SnapshotReport,
    analyses: Sequence[Analysis],
    options: ReportOptions,
    *,
    lead: Callable[[ShownText], str] = lambda _: "",
    more: Callable[[ShownText], str] = lambda _: "",
    names: object = (),
) -> str:
    """The page. `analyses` are those that the report was made from; a device without one has no drawings. `lead` and
    `more` make the HTML that stands in front of all and before the footer, from text that they treat as all other is;
    `names` holds the names in it."""
    by_index = {device.index: device for device in report.devices}
    drawings = [drawing(one, by_index[one.index]) for one in analyses if one.index in by_index]
    frames = tuple(frame for one in drawings for frame in one.tree.frames)
    text = shown_text(options, [report.source], (report, frames, names))
    # The text is made harmless here, together with the stacks, so that a name has one placeholder in all of the page.
    shown = text.apply(report)
    holders = None if getattr(options, "everything", False) else HOLDERS
    view = prepare(shown, SnapshotOptions(), holders)
    style, script = _read("style.css"), _script()
    return Template(_read("page.html")).substitute(
        policy=_policy(style, script),
        version=escape(__version__),
        title=escape(f"GPU memory: {flat(shown.source)}"),
        style=style,
        header=lead(text) + header_html(view),
        devices=_chooser(shown, drawings),
        sections=sections_html(view, options) + more(text),
        footer=f"{footer_html(view)} oomph {escape(__version__)}.",
        data=_packed(drawings, text),
        script=script,
    )


def _read(name: str) -> str:
    return (files("oomph.report.snapshot") / "page" / name).read_text(encoding="utf-8")


def _script() -> str:
    """All scripts as one, with no name of theirs outside of it."""
    return '(() => {\n"use strict";\n' + "\n".join(_read(name) for name in _SCRIPTS) + "})();\n"


def _policy(style: str, script: str) -> str:
    """Nothing may be fetched, framed or sent, and nothing runs but this script and this style sheet."""

    def source(text: str) -> str:
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; script-src {source(script)}; style-src {source(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _packed(drawings: Sequence[Drawing], text: ShownText) -> str:
    """Gzip in base64: none of its characters means anything to HTML. The same input gives the same bytes."""

    def shown(frame: Frame) -> Frame:
        return text.apply(frame)

    data = {"devices": [one.data(shown) for one in drawings]}
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 6, mtime=0)
    return b64encode(packed).decode()


def _chooser(report: SnapshotReport, drawings: Sequence[Drawing]) -> str:
    """A choice of the device that is drawn; hidden where there is one."""
    shown = report.devices[report.shown].index if 0 <= report.shown < len(report.devices) else None
    options = "".join(
        f'<option value="{number}"{" selected" if one.index == shown else ""}>GPU {one.index}</option>'
        for number, one in enumerate(drawings)
    )
    hidden = "" if len(drawings) > 1 else " hidden"
    return f'<label{hidden}>Device <select id="device">{options}</select></label>'
