"""`python -m tests.conformance logs|snapshots FOLDER [--json] [-v]`: rates and every miss.
`python -m tests.conformance trace --snapshot FILE [--json] -- SCRIPT ARGS`: a real run beside its trace.

For `logs`, FOLDER holds `logs/` and `expect.jsonl`; for `snapshots` it holds memory snapshots, and a manifest.json
with their peaks if there is one. The exit code is 0 when the folder could be judged, however many misses there are,
and 2 when it could not.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.conformance.claims import Claims
from tests.conformance.labels import FolderError, Label, load
from tests.conformance.render import as_json, as_text, one_line
from tests.conformance.run import Explain, answers, oomph_explain
from tests.conformance.score import score


def main(arguments: list[str] | None = None, explain: Explain | None = None) -> int:
    """Runs the command. `explain` stands in for oomph's own in tests."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "snapshots":
            return _snapshots(options)
        if options.command == "trace":
            return _trace(options)
        labels = load(options.folder)
    except FolderError as error:
        print(error, file=sys.stderr)
        return 2
    told: list[tuple[Label, Claims]] = []
    for label, claims in answers(labels, explain or oomph_explain()):
        told.append((label, claims))
        if options.verbose:
            print(one_line(label, claims), file=sys.stderr, flush=True)
    tally = score(told)
    print(as_json(tally) if options.json else as_text(tally, str(options.folder)))
    return 0


def _snapshots(options: argparse.Namespace) -> int:
    from tests.conformance import snapshots  # numpy is needed only here

    tally = snapshots.judge(options.folder)
    print(snapshots.as_json(tally) if options.json else snapshots.as_text(tally, str(options.folder)))
    return 0


def _trace(options: argparse.Namespace) -> int:
    from oomph.tracing.child.request import Limits  # msgspec is needed only here
    from tests.conformance import trace

    limits = Limits(seconds=options.timeout)
    answer = trace.judge(
        options.snapshot,
        [word for place, word in enumerate(options.target) if place or word != "--"],
        options.gpu,
        options.torch,
        limits,
        options.capacity,
    )
    print(trace.as_json(answer) if options.json else trace.as_text(answer))
    return 0


def _gib(text: str) -> int:
    """Bytes. Argparse turns what is raised into a sentence and exit code 2."""
    value = float(text)
    if not 0 < value < 2**20:
        raise argparse.ArgumentTypeError(f"{text} is no size of a GPU's memory in GiB")
    return int(value * 2**30)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    logs = commands.add_parser("logs", help="judge explain on a folder of labelled logs")
    logs.add_argument("folder", type=Path, metavar="FOLDER", help="holds logs/ and expect.jsonl")
    logs.add_argument("--json", action="store_true", help="one JSON object on stdout")
    logs.add_argument("-v", "--verbose", action="store_true", help="one line per log on stderr")
    snapshots = commands.add_parser("snapshots", help="replay the memory snapshots of a folder")
    snapshots.add_argument("folder", type=Path, metavar="FOLDER", help="holds *.pickle, *.pkl, packed or not")
    snapshots.add_argument("--json", action="store_true", help="one JSON object on stdout")
    trace = commands.add_parser("trace", help="lay a real memory snapshot over a trace of its script")
    trace.add_argument(
        "--snapshot", type=Path, required=True, metavar="FILE", help="what the real run recorded"
    )
    trace.add_argument("--gpu", help="the GPU of the real run; tried out where it is not given")
    trace.add_argument(
        "--torch", metavar="VERSION", help="its torch (2.7); from the file's format if not given"
    )
    trace.add_argument(
        "--capacity", type=_gib, metavar="GIB", help="what PyTorch could have, where the GPU was full"
    )
    trace.add_argument("--timeout", type=float, default=1800, metavar="SECONDS", help="for one trace")
    trace.add_argument("--json", action="store_true", help="one JSON object on stdout")
    trace.add_argument("target", nargs=argparse.REMAINDER, metavar="-- SCRIPT ARGS")
    return parser


if __name__ == "__main__":
    sys.exit(main())
