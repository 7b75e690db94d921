"""oomph beside other programs that predict GPU memory, on the same measured points in one run.

    python benchmarks/peers.py --points FILE --verdicts FILE [--environment FOLDER] [--json]

Installs accelerate, DeepSpeed, llm-analysis, torch-preflight, torch-kitsune and vramcalc into an environment of their
own (a temporary one, or FOLDER, which is kept), asks each about every row, and prints one table: how many rows it can
be told at all, how near it was, and how oomph did on the same rows. benchmarks/peer has one file per program that says
how a row is put to it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=Path, required=True)
    parser.add_argument("--verdicts", type=Path, required=True)
    parser.add_argument("--environment", type=Path, help="where the programs are installed; kept")
    parser.add_argument("--only", nargs="*", help="names of adapters (deepspeed_peer ...)")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _run() -> int:
    sys.path.insert(0, str(ROOT))
    asked = _options()
    with tempfile.TemporaryDirectory() as folder:
        where = asked.environment or Path(folder) / "environment"
        return _compare(asked, where.resolve(), Path(folder))


def _compare(asked: argparse.Namespace, where: Path, folder: Path) -> int:
    from benchmarks.judge.main import answers
    from benchmarks.judge.rows import read
    from benchmarks.peer import compare
    from benchmarks.peer.install import ADAPTERS, install
    from oomph import __version__
    from oomph.job.importers.points import from_point
    from oomph.predict.plan import plan

    names = asked.only or ADAPTERS
    failed = install(where, names)
    ours = answers(asked.points, from_point, plan, replay=True)
    verdicts = answers(asked.verdicts, from_point, plan, replay=True)
    lines = [compare.own(__version__, ours, verdicts)]
    for name in names:
        said = {} if name in failed else _ask(name, where, folder, asked, failed)
        if said:
            rows, outcomes = read(asked.points), read(asked.verdicts)
            lines.append(compare.line(said["points"], said["verdicts"], rows, outcomes, ours))
    if asked.json:
        print(json.dumps({"programs": compare.as_json(lines), "failed": failed}, indent=1))
        return 0
    print(compare.as_markdown(lines))
    for each in lines:
        for reason, count in each.reasons.items():
            print(f"{each.name}: no answer for {count}: {reason}")
    for name, why in failed.items():
        print(f"{name} did not run: {why}")
    return 0


def _ask(
    name: str, where: Path, folder: Path, asked: argparse.Namespace, failed: dict[str, str]
) -> dict[str, Any]:
    from benchmarks.peer.install import ask

    said = {}
    for kind, points in (("points", asked.points), ("verdicts", asked.verdicts)):
        out = folder / f"{name}-{kind}.json"
        wrong = ask(where, name, points.resolve(), out)
        if wrong is not None:
            failed[name] = wrong
            return {}
        said[kind] = json.loads(out.read_text())
    return said


if __name__ == "__main__":
    sys.exit(_run())
