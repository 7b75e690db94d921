"""The answer as text and tables of HTML: the same rows as in the text report, readable without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from oomph.diagnose.model import Advice, Step
from oomph.diagnose.snapshot.model import DeviceReport, Failure, Holder
from oomph.memory.stacks import Frame
from oomph.report.bar import ledger_table
from oomph.report.clean import flat
from oomph.report.options import ReportOptions
from oomph.report.snapshot.html_scale import scale_svg
from oomph.report.snapshot.text_alive import (
    holder_remarks,
    holder_row,
    pool_rows,
    pools_of_interest,
    share_rows,
)
from oomph.report.snapshot.text_failure import failure_rows
from oomph.report.snapshot.text_more import device_words, leak_rows, notes_of, trial_rows
from oomph.report.snapshot.view import LeftOut, SnapshotView
from oomph.report.snapshot.words import (
    frame_line,
    headline,
    moment_title,
    moment_words,
    place_of,
    place_words,
    read_words,
    verdict_words,
)
from oomph.units import format_bytes

#: Rows of the tables of pins, leaks and retries.
_MOST = 50


def element(name: str, text: str, css: str = "") -> str:
    """An element with text in it; every character of `text` is shown as itself."""
    chosen = f' class="{css}"' if css else ""
    return f"<{name}{chosen}>{escape(text)}</{name}>"


def table(rows: Sequence[Sequence[str]], numbers: str) -> str:
    """Rows as a table, the first of them heads; `numbers` has an "r" for each column of numbers."""
    if not rows:
        return ""
    css = ["number" if side == "r" else "" for side in numbers]
    heads = "".join(element("th", cell, one) for cell, one in zip(rows[0], css, strict=True))
    body = "".join(
        "<tr>" + "".join(element("td", cell, one) for cell, one in zip(row, css, strict=True)) + "</tr>"
        for row in rows[1:]
    )
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def header_html(view: SnapshotView) -> str:
    """What was read, the headline, what to do, and the moment."""
    device = view.device
    failure = None if device is None else device.failure
    css = "verdict" if failure is not None and not failure.caught else "verdict fine"
    parts = [element("h1", f"GPU memory: {flat(view.report.source)}"), f'<div class="{css}">']
    parts.append(f"<p>{element('strong', headline(view))}</p>")
    if failure is not None:
        parts.append(element("p", flat(failure.says)))
    if view.report.advice is not None:
        parts.append(element("p", f"First change: {flat(view.report.advice.first.title)}"))
    if device is not None and device.what_if is not None:
        parts.append(element("p", f"What if: {flat(device.what_if.says)}"))
    if device is not None and moment_words(device):
        parts.append(element("p", moment_words(device), "quiet"))
    return "\n".join([*parts, "</div>"])


def sections_html(view: SnapshotView, options: ReportOptions) -> str:
    """All that follows the drawings: what concerns one device, then findings, advice and notes."""
    many = len(view.report.devices) > 1
    parts = [
        _device(device, left_out, options, many=many)
        for device, left_out in zip(view.report.devices, view.left_out, strict=True)
    ]
    parts.append(_section("Findings", _findings(view)))
    parts.append(_section("Ruled out", _ruled_out(view)))
    if view.report.advice is not None:
        parts += _advice(view.report.advice)
    others = [f"GPU {one.index}: {device_words(one)}" for one in view.others]
    parts.append(_section("Other devices", _items(others)))
    parts.append(_section("Notes", _items(notes_of(view))))
    return "\n".join(part for part in parts if part)


def footer_html(view: SnapshotView) -> str:
    """What was read, and the allocator settings that the file names."""
    settings = flat(view.report.settings)
    told = f" Allocator settings: {settings}." if settings else ""
    return escape(read_words(view.report) + told)


def stack_html(frames: Sequence[Frame], summary: str) -> str:
    """A stack, innermost first, folded away below `summary`; just the summary where there is none."""
    if not frames:
        return escape(summary)
    lines = "\n".join(escape(frame_line(frame)) for frame in frames)
    return f"<details><summary>{escape(summary)}</summary><pre>{lines}</pre></details>"


def _section(title: str, body: str) -> str:
    return f"<section>{element('h2', title)}\n{body}</section>" if body else ""


def _items(texts: Iterable[str]) -> str:
    items = "".join(element("li", flat(text)) for text in texts)
    return f"<ul>{items}</ul>" if items else ""


def _device(device: DeviceReport, left_out: LeftOut, options: ReportOptions, *, many: bool) -> str:
    title = f" of GPU {device.index}" if many else ""
    parts = []
    if device.failure is not None:
        parts.append(_section(f"Why{title}: {verdict_words(device.failure)}", _failure(device.failure)))
    ledger = ledger_table(device.ledger, options)
    if ledger:
        # A remark about the text report's bar, which the page does not have.
        told = [(name, size, "" if how.startswith("the bar ") else how) for name, size, how in ledger]
        rows = [("memory", "size", "how it is known"), *told]
        parts.append(_section(f"Memory{title} {moment_title(device.moment)}", table(rows, "lrl")))
    shares = share_rows(device.shares)
    parts.append(_section(f"Categories{title}", table(shares, "lrrrl")))
    if device.holders:
        parts.append(_section(f"Stacks{title} that hold the most", _holders(device, left_out)))
    pools = pools_of_interest(device, everything=True)
    parts.append(_section(f"Free lists of the allocator{title}", table(pool_rows(pools), "rrrrl")))
    parts += [_growth(device, title), _what_if(device, title), _retries(device, title)]
    body = "\n".join(part for part in parts if part)
    return f'<div data-device="{device.index}">\n{body}\n</div>'


def _failure(failure: Failure) -> str:
    rows = [("number", "size", "what it is"), *failure_rows(failure)]
    parts = [element("p", flat(failure.says)), scale_svg(failure), table(rows, "lrl")]
    parts.append(stack_html(failure.frames, "The request's stack") if failure.frames else "")
    if failure.pins:
        parts.append(element("h3", "What kept the free memory apart"))
        parts.append(_pins(failure))
    return "\n".join(part for part in parts if part)


def _pins(failure: Failure) -> str:
    heads = "".join(
        element("th", text, css)
        for text, css in (
            ("block", "number"),
            ("hole without it", "number"),
            ("category", ""),
            ("allocated at", ""),
        )
    )
    rows = []
    for pin in failure.pins[:_MOST]:
        frame = pin.place or place_of(pin.frames)
        place = "no stack was recorded" if frame is None else place_words(frame)
        cells = element("td", format_bytes(pin.bytes), "number") + element(
            "td", format_bytes(pin.hole_bytes), "number"
        )
        told = f'{element("td", str(pin.category))}<td class="place">{stack_html(pin.frames, place)}</td>'
        rows.append(f"<tr>{cells}{told}</tr>")
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _holders(device: DeviceReport, rest: LeftOut) -> str:
    heads = "".join(
        element("th", text, css)
        for text, css in (
            ("size", "number"),
            ("blocks", "number"),
            ("category", ""),
            ("phase", ""),
            ("allocated at", ""),
            ("how it was told", ""),
        )
    )
    rows = "\n".join(_holder(holder) for holder in device.holders)
    told = (
        element("p", f"and {rest.stacks:,} more stacks with {format_bytes(rest.bytes)}", "quiet")
        if rest.stacks
        else ""
    )
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table></div>{told}'


def _holder(holder: Holder) -> str:
    size, blocks, category, phase, place = holder_row(holder)
    cells = [
        element("td", size, "number"),
        element("td", blocks, "number"),
        element("td", category),
        element("td", phase),
        f'<td class="place">{stack_html(holder.frames, place)}</td>',
        element("td", holder_remarks(holder)),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _growth(device: DeviceReport, title: str) -> str:
    growth = device.growth
    if growth is None or not flat(growth.says):
        return ""
    leaks = table(leak_rows(growth.leaks[:_MOST]), "rrrll") if growth.leaks else ""
    return _section(f"Growth{title}", element("p", flat(growth.says)) + leaks)


def _what_if(device: DeviceReport, title: str) -> str:
    what_if = device.what_if
    if what_if is None:
        return ""
    if what_if.capacity_bytes is not None:
        known = f"With {format_bytes(what_if.capacity_bytes)} for PyTorch ({flat(what_if.capacity_how)})."
    else:
        known = f"What PyTorch could have had is not known ({flat(what_if.capacity_how)})."
    caveats = [
        f"{flat(trial.setting) or 'as it was'}: {trial.caveat}" for trial in what_if.trials if trial.caveat
    ]
    body = element("p", flat(what_if.says)) + element("p", known, "quiet")
    return _section(
        f"What if{title}", body + table(trial_rows(what_if), "lrlr") + _items(dict.fromkeys(caveats))
    )


def _retries(device: DeviceReport, title: str) -> str:
    told = [
        f"<li>{stack_html(retry.frames, f'event {retry.position:,}: {flat(retry.says)}')}</li>"
        for retry in device.retries[:_MOST]
    ]
    more = len(device.retries) - _MOST
    told += [f"<li>and {more:,} more</li>"] if more > 0 else []
    return _section(
        f"Cached memory{title} given back to serve a request", f"<ul>{''.join(told)}</ul>" if told else ""
    )


def _findings(view: SnapshotView) -> str:
    items = "".join(
        f"<li>{element('strong', f'{finding.code} {flat(finding.name)}')} ({escape(str(finding.certainty))}): "
        f"{escape(flat(finding.says))}</li>"
        for finding in view.report.findings
    )
    return f"<ol>{items}</ol>" if items else ""


def _ruled_out(view: SnapshotView) -> str:
    failure = None if view.device is None else view.device.failure
    every = (*(() if failure is None else failure.ruled_out), *view.report.ruled_out)
    return _items(dict.fromkeys(f"{flat(one.cause)}: {flat(one.why)}" for one in every))


def _advice(advice: Advice) -> list[str]:
    first = _step(advice.first, "p")
    outcomes = _items(f"{outcome}: {follows}" for outcome, follows in advice.first.outcomes)
    then = "".join(f"<li>{_step(step, 'span')}</li>" for step in advice.then)
    collect = "".join(f"<li>{_step(step, 'span')}</li>" for step in advice.collect)
    return [
        _section("First change", first + outcomes),
        _section("Then", f"<ol>{then}</ol>" if then else ""),
        _section("Do not", _items(advice.avoid)),
        _section("Collect", f"<ul>{collect}</ul>" if collect else ""),
    ]


def _step(step: Step, name: str) -> str:
    parts = [f"<{name}>{element('strong', flat(step.title))} {escape(flat(step.text))}</{name}>"]
    if step.paste.strip():
        parts.append(element("pre", step.paste.strip("\n")))
    if step.frees_bytes is not None:
        parts.append(element("p", f"It frees about {format_bytes(step.frees_bytes)}, by the figures above."))
    return "".join(parts)
