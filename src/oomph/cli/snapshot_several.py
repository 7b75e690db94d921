"""Several snapshots in one answer."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import TYPE_CHECKING

from oomph.cli.snapshot_read import Answer

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.compare_model import SnapshotComparison
    from oomph.report.snapshot.options import SnapshotOptions


def render_several(
    answers: Sequence[Answer],
    refused: Sequence[str],
    output_format: str,
    options: SnapshotOptions,
    *,
    comparing: bool,
) -> str:
    """Text, Markdown or JSON of several snapshots: what differs between them or, not `comparing`, one by one."""
    from oomph.report.snapshot import markdown, text
    from oomph.report.snapshot.view import prepare_compared

    comparison = _compare(answers) if comparing else None
    limits = {"text": text.HOLDERS, "markdown": markdown.HOLDERS}
    holders = None if options.everything else limits.get(output_format)
    reports = [answer.report for answer in answers]
    views, compared = prepare_compared(
        reports, comparison, options, holders, merged=holders is not None and not options.stacks
    )
    if output_format == "json":
        from oomph.report.snapshot.json import document

        return document(views, compared, refused)
    if output_format == "markdown":
        if compared is not None:
            return markdown.render_comparison(compared, views)
        return "\n".join(markdown.render_view(view, options) for view in views)
    if compared is not None:
        from oomph.report.snapshot.text_compare import render_comparison

        return render_comparison(compared, views, options)
    rule = ("\u2500" if options.unicode else "-") * options.columns
    return f"\n{rule}\n\n".join(text.render_view(view, options) for view in views)


def _compare(answers: Sequence[Answer]) -> SnapshotComparison | None:
    """What differs between the devices shown, or between all devices of one snapshot; None where of several snapshots
    there are not two that hold anything. Raises UsageError for one snapshot of one device."""
    from oomph.diagnose.snapshot.compare import compare

    if len(answers) == 1:
        return compare([(str(one.index), one) for one in answers[0].analyses])

    names = ascii_uppercase if len(answers) <= len(ascii_uppercase) else map(str, range(1, len(answers) + 1))
    sides = [
        (name, answer.shown) for name, answer in zip(names, answers, strict=False) if answer.shown is not None
    ]
    return compare(sides) if len(sides) > 1 else None
