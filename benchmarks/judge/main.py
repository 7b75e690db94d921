"""The command behind benchmarks/accuracy.py."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.judge.answers import Answer, Importer, Planner, answer
from benchmarks.judge.markdown import as_markdown
from benchmarks.judge.report import as_json, as_text
from benchmarks.judge.rows import read
from oomph.errors import OomphError


def options(description: str) -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--points", type=Path, required=True, help="rows with measured peaks; configs/ beside it"
    )
    parser.add_argument("--verdicts", type=Path, help="rows with outcomes: oom or fits")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--markdown", action="store_true", help="print the tables of docs/plan-accuracy.md")
    parser.add_argument(
        "--calibrate", action="store_true", help="print the bands that follow from the points"
    )
    parser.add_argument("--no-replay", action="store_true", help="allocated counters only: faster")
    parser.add_argument("--only", default="", help="only rows whose id begins so")
    return parser


def answers(
    path: Path, importer: Importer, planner: Planner, *, replay: bool, only: str = ""
) -> list[Answer]:
    """The predictions for all rows of a file."""
    configs = path.parent / "configs"
    rows = [row for row in read(path) if row.id.startswith(only)]
    return [answer(row, configs, importer, planner, replay=replay) for row in rows]


def main(
    description: str,
    arguments: Sequence[str] | None = None,
    importer: Importer | None = None,
    planner: Planner | None = None,
) -> int:
    """Judges and prints. Returns 2 for a file that cannot be read, 1 when oomph itself failed at a row, else 0."""
    if importer is None or planner is None:
        from oomph.job.importers.points import from_point
        from oomph.predict.plan import plan

        importer, planner = from_point, plan
    asked = options(description).parse_args(arguments)
    try:
        points, verdicts = (
            []
            if path is None
            else answers(path, importer, planner, replay=not asked.no_replay, only=asked.only)
            for path in (asked.points, asked.verdicts)
        )
    except OomphError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if asked.calibrate:
        from benchmarks.judge.calibrate import blinded, calibrated

        configs = asked.points.parent / "configs"
        without = [answer(blinded(each.row), configs, importer, planner, replay=False) for each in points]
        print(calibrated([*points, *without]))
    elif asked.json:
        print(json.dumps(as_json(points, verdicts), indent=1))
    elif asked.markdown:
        print(as_markdown(points, verdicts), end="")
    else:
        print(as_text(points, verdicts))
    return int(any(each.crashed for each in (*points, *verdicts)))
