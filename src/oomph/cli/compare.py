"""`oomph explain A B`: two failed runs of one job, and what differs between them.

Two paths are usually two files of one run (two ranks, stdout and stderr), which are explained together. They are
compared when both failed on their own, or when `--compare` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.cli.explain import Request
    from oomph.diagnose.compare import Comparison
    from oomph.diagnose.model import Diagnosis


def check_wanted(request: Request, paths: Sequence[str], output_format: str) -> None:
    """Raises UsageError where `--compare` cannot be done."""
    if len(paths) != 2 or "-" in paths:
        raise UsageError("--compare takes two paths: the files or folders of two runs")
    if output_format != "text":
        raise UsageError("--compare prints text; leave --format out")
    if request.rank is not None or request.follow:
        raise UsageError("--compare looks at whole runs; leave --rank and --follow out")


def worth_a_look(request: Request, paths: Sequence[str], output_format: str, together: Diagnosis) -> bool:
    """Whether the two paths may be two runs: two files, each with a failure, and nothing asked that rules it out.

    `together` is the answer for both as one run; it spares most calls the reading of each file alone.
    """
    if len(paths) != 2 or output_format != "text" or request.rank is not None or request.follow:
        return False
    if not all(Path(path).is_file() for path in paths):
        return False
    failures = [
        failure for incident in together.incidents for failure in (incident.failure, *incident.copies)
    ]
    return len({failure.position.document for failure in failures}) == 2


def compare_runs(paths: Sequence[str], select: Sequence[str], ignore: Sequence[str]) -> Comparison:
    """The comparison of the two paths, whatever they are."""
    from oomph.api import compare

    return compare(paths[0], paths[1], select=select, ignore=ignore)


def two_runs(paths: Sequence[str], select: Sequence[str], ignore: Sequence[str]) -> Comparison | None:
    """The comparison of the two paths when they look like two runs, None when they look like parts of one."""
    from oomph.diagnose.jobs import are_two_runs

    comparison = compare_runs(paths, select, ignore)
    return comparison if are_two_runs(comparison.a, comparison.b) else None
