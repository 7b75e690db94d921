"""Format name -> renderer. Only the renderer that is asked for is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oomph.diagnose.compare import Comparison
    from oomph.diagnose.model import Diagnosis
    from oomph.report.options import ReportOptions


def render(diagnosis: Diagnosis, output_format: str, options: ReportOptions) -> str:
    """The diagnosis as text in one of `settings.FORMATS`."""
    if output_format == "json":
        from oomph.report.json import render_json

        return render_json(diagnosis, options)
    if output_format == "markdown":
        from oomph.report.markdown import render_markdown

        return render_markdown(diagnosis, options)
    if output_format == "sarif":
        from oomph.cli.codes import load_rules
        from oomph.report.sarif import render_sarif

        return render_sarif(diagnosis, options, load_rules())
    if output_format == "github":
        from oomph.report.github import render_github

        return render_github(diagnosis, options)
    from oomph.report.text import render_text

    return render_text(diagnosis, options)


def render_comparison(comparison: Comparison, options: ReportOptions) -> str:
    """Two runs side by side, as text."""
    from oomph.report.compare import Row, render_rows

    rows = [Row(row.what, row.a, row.b, row.section) for row in comparison.rows]
    return render_rows(comparison.title_a, comparison.title_b, rows, options, comparison.answers)
