"""Promise: no input crashes `oomph explain`, and no text of a log gets through as more than text.

python benchmarks/fuzz_explain.py --seconds 60           # coverage-guided where atheris is installed, else random
python benchmarks/fuzz_explain.py --seconds 60 --plain   # the random mutator alone
python benchmarks/fuzz_explain.py FILE...                # runs saved inputs again

Seeds are the files of examples/ and tests/data; --seeds adds folders. An input that fails is saved below --save and
named; the exit code is then 1. An input fails when anything but an OomphError is raised, when a renderer lets a control
character through, when JSON does not parse, or when it takes longer than --slow seconds.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import io
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Larger inputs only make fuzzing slow; size has benchmarks of its own.
LARGEST = 256 << 10
_CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

#: Texts that parsers of logs trip over, put in at random places.
TOKENS: tuple[bytes, ...] = (
    b"\r", b"\r\n", b"\n", b"\x00", b"\x1b[31m", b"\x1b]0;title\x07", b"\x9b2J", "\u202e".encode(), "\u200f".encode(),
    b"\xed\xb2\x80", b"\xff\xfe", b"\xef\xbb\xbf", "\u0663\u0664".encode(), "\u00b2".encode(), "\uff11\uff12".encode(),
    "\u2028".encode(), "\u00a0".encode(), b"\t", b"-1", b"9" * 25, b"9" * 5000, b"1e999", b"NaN", b"0", b"-0", b"0x1F",
    b"17179869184.00 GiB", b"18446744073709551615", b"0 bytes", b"1,024.50 MiB", b" GiB", b" MiB", b"GPU ", b"|", b"{",
    b'{"', b"}", b"[", b"[rank", b"[rank99999]: ", b"]: ", b": ", b"(pid=1) ", b'File "', b", line ", b" in ", b"^^^^",
    b"Traceback (most recent call last):\n", b"Traceback (most recent call last):\\n", b"torch.OutOfMemoryError: ",
    b"RuntimeError: CUDA error: out of memory\n", b"CUDA out of memory. Tried to allocate ", b"Process 1 has ",
    b"MPS backend out of memory", b"Allocation on device 0 would exceed allowed memory.", b"Killed\n", b"MemoryError\n",
    b"exitcode  : -9 (pid: 7)\n", b"DataLoader worker (pid 3) is killed by signal: Bus error.\n", b"OOMKilled\n",
    b"NCCL WARN Cuda failure 'out of memory'\n", b"|===============|\n", b"PyTorch CUDA memory summary",
    b"NVIDIA-SMI 550.54", b"index, memory.used [MiB], memory.total [MiB]\n", b"step 10",
    b"100%|###| 10/10 [00:01<00:00]",
    b"{'loss': 1.0, 'epoch': 1.0}\n", b"&lt;", b"</td>", b"> ", b"0: ", b"\xe2\x94\x82 ", b"\xe2\x95\xad\xe2\x94\x80",
    b'"cells": [', b'{"message": {"message": "', b'\\ud800', b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd",
    b"2025-02-30T25:61:61Z ",
)  # fmt: skip


class BrokenPromiseError(Exception):
    """An input that broke a promise."""


def load_pipeline() -> Callable[[bytes], None]:
    """Imports oomph (atheris instruments what is imported while it watches) and returns the test of one input."""
    from oomph.api import explain
    from oomph.cli.codes import load_rules
    from oomph.errors import OomphError
    from oomph.report.github import render_github
    from oomph.report.json import render_json
    from oomph.report.markdown import render_markdown
    from oomph.report.options import ReportOptions
    from oomph.report.sarif import render_sarif
    from oomph.report.text import render_text

    rules = load_rules()
    options = ReportOptions(all_incidents=True, explain_evidence=True)
    redacted = ReportOptions(all_incidents=True, explain_evidence=True, redact=True)

    def check(data: bytes) -> None:
        try:
            diagnosis = explain(["-"], stdin=io.BytesIO(data))
        except OomphError as error:
            if not str(error).strip() or "\n" in str(error):
                raise BrokenPromiseError(f"not a sentence: {error!r}") from error
            return
        if (diagnosis.exit_code == 1) != (diagnosis.outcome.value == "failed"):
            raise BrokenPromiseError("the exit code does not follow from the outcome")
        if diagnosis.exit_code == 1 and diagnosis.incident is None:
            raise BrokenPromiseError("a failure without an incident")
        for chosen in (options, redacted):
            outputs = {
                "text": render_text(diagnosis, chosen),
                "markdown": render_markdown(diagnosis, chosen),
                "github": render_github(diagnosis, chosen),
                "json": render_json(diagnosis, chosen),
                "sarif": render_sarif(diagnosis, chosen, rules),
            }
            for name, output in outputs.items():
                found = _CONTROLS.search(output)
                if found is not None:
                    raise BrokenPromiseError(f"{name} lets {found[0]!r} through")
                output.encode("utf-8")
            json.loads(outputs["json"])
            json.loads(outputs["sarif"])

    return check


def seeds(folders: Sequence[Path]) -> list[bytes]:
    """The contents of all files in `folders`, short ones first."""
    found = [
        path.read_bytes()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.stat().st_size <= LARGEST and path.suffix != ".py"
    ]
    return sorted(filter(None, found), key=len) or [b"CUDA out of memory. Tried to allocate 2.00 GiB"]


def mutate(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """`data` with one to four changes of the kinds that happen to logs, and some that only an enemy makes."""
    for _ in range(chance.randint(1, 4)):
        data = chance.choice(_MUTATIONS)(data, others, chance)[:LARGEST]
    return data


def _truncate(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] if chance.random() < 0.7 else data[at:]


def _flip(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _time in range(chance.randint(1, 8) if changed else 0):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _token(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    for _time in range(chance.randint(1, 4)):
        at = chance.randint(0, len(data))
        data = data[:at] + chance.choice(TOKENS) * chance.choice((1, 1, 1, 2, 50)) + data[at:]
    return data


def _number(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    numbers = list(re.finditer(rb"\d+(?:\.\d+)?", data))
    if not numbers:
        return data
    for match in sorted(chance.sample(numbers, min(3, len(numbers))), key=lambda one: -one.start()):
        digits = chance.choice(
            (
                *TOKENS[12:30],
                str(chance.randint(0, 10 ** chance.randint(1, 20))).encode(),
                "".join(chr(0x660 + int(digit)) for digit in match[0].decode() if digit.isdigit()).encode(),
            )
        )
        data = data[: match.start()] + digits + data[match.end() :]
    return data


def _lines(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    rows = data.split(b"\n")
    low = chance.randrange(len(rows))
    high = min(len(rows), low + chance.choice((1, 1, 3, 10, 1000)))
    kind = chance.randrange(6)
    if kind == 0:
        del rows[low:high]
    elif kind == 1:
        rows[low:high] = rows[low:high] * chance.choice((2, 2, 3, 40))
    elif kind == 2:
        part = rows[low:high]
        chance.shuffle(part)
        rows[low:high] = part
    elif kind == 3:
        rows[low:high] = reversed(rows[low:high])
    elif kind == 4:
        prefix = chance.choice(
            (b"[rank3]: ", b"0: ", b"> ", b"| ", b"(w pid=9) ", b"2025-01-01T00:00:00.000Z ", b"E   ")
        )
        rows[low:high] = [prefix + row for row in rows[low:high]]
    else:
        inserted = chance.choice(others).split(b"\n")
        at = chance.randrange(len(inserted))
        rows[low:low] = inserted[at : at + chance.choice((1, 5, 50))]
    return b"\n".join(rows)


def _splice(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    other = chance.choice(others)
    return data[: chance.randint(0, len(data))] + other[chance.randint(0, len(other)) :]


def _ends(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    old, new = chance.choice(
        ((b"\n", b"\r\n"), (b"\n", b"\r"), (b"\n", b""), (b" ", b""), (b" ", b"\n"), (b"\n", b"\\n"))
    )
    return data.replace(old, new)


def _wrap(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    width = chance.choice((1, 7, 40, 80))
    rows = [row[at : at + width] for row in data.split(b"\n") for at in range(0, max(1, len(row)), width)]
    return b"\n".join(rows)


def _encode(data: bytes, _: Sequence[bytes], chance: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    return chance.choice(
        (
            lambda: text.encode("utf-16"),
            lambda: json.dumps({"log": text, "stream": "stderr"}).encode(),
            lambda: json.dumps({"message": {"message": text, "extraInfo": {"py_callstack": text}}}).encode(),
            lambda: b"\n".join(json.dumps({"message": row, "rank": 3}).encode() for row in text.split("\n")),
            lambda: text.replace("<", "&lt;").replace('"', "&quot;").encode(),
        )
    )()


_MUTATIONS = (
    _truncate,
    _flip,
    _token,
    _token,
    _number,
    _number,
    _lines,
    _lines,
    _splice,
    _ends,
    _wrap,
    _encode,
)


class Judge:
    """Runs inputs, saves those that fail, and remembers the failures by where they happened."""

    def __init__(self, save: Path, slow_seconds: float) -> None:
        self._save = save
        self._slow = slow_seconds
        self.runs = 0
        self.found: dict[str, Path] = {}

    def run(self, check: Callable[[bytes], None], data: bytes) -> None:
        self.runs += 1
        started = time.perf_counter()
        try:
            check(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            frames = traceback.extract_tb(error.__traceback__)
            self._report(
                f"{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}: {error}"[:300], data
            )
            return
        seconds = time.perf_counter() - started
        if seconds > self._slow:
            self._report(f"slow: {len(data) >> 10 or 1} KiB", data, f" ({seconds:.1f} s)")

    def _report(self, what: str, data: bytes, more: str = "") -> None:
        key = what.partition(": ")[0] if not what.startswith(("BrokenPromiseError", "slow")) else what
        if key in self.found:
            return
        self._save.mkdir(parents=True, exist_ok=True)
        path = self._save / f"{hashlib.sha256(data).hexdigest()[:16]}.bin"
        path.write_bytes(data)
        self.found[key] = path
        print(f"FAILED {what}{more}\n       {path}", flush=True)


def fuzz_plain(judge: Judge, corpus: Sequence[bytes], seconds: float, seed: int) -> None:
    """Mutates seeds at random until the time is over."""
    check = load_pipeline()
    chance = random.Random(seed)  # noqa: S311 - the same inputs for the same seed is the point
    for data in corpus:
        judge.run(check, data)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        judge.run(check, mutate(chance.choice(corpus), corpus, chance))


def fuzz_guided(judge: Judge, corpus: Sequence[bytes], folder: Path, seconds: float, seed: int) -> None:
    """Lets atheris look for inputs that reach new code; every other mutation is one of ours. libFuzzer does not come
    back: `finish` ends the process."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["oomph"]):
        check = load_pipeline()
    chance = random.Random(seed)  # noqa: S311 - as above
    start = folder / "seeds"
    start.mkdir(parents=True, exist_ok=True)
    for data in corpus:
        (start / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    end = time.monotonic() + seconds

    def one(data: bytes) -> None:
        judge.run(check, data)
        if time.monotonic() > end:
            shutil.rmtree(folder, ignore_errors=True)
            finish(judge)

    def custom(data: bytes, most: int, _number: int) -> bytes:
        if chance.random() < 0.5:
            return mutate(data, corpus, chance)[:most]
        return bytes(atheris.Mutate(data, most))

    arguments = [
        sys.argv[0],
        f"-max_len={LARGEST}",
        f"-seed={seed or 1}",
        "-rss_limit_mb=0",
        "-verbosity=0",
        str(start),
    ]
    atheris.Setup(arguments, one, custom_mutator=custom)
    atheris.Fuzz()


def finish(judge: Judge) -> None:
    """Says what was found and ends the process: 1 when an input failed (libFuzzer would not let go otherwise)."""
    print(f"{judge.runs} inputs, {len(judge.found)} kinds of failure", flush=True)
    sys.stdout.flush()
    os._exit(1 if judge.found else 0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, help="run these inputs and nothing else")
    parser.add_argument("--seconds", type=float, default=60, help="how long to look")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers")
    parser.add_argument(
        "--seeds", type=Path, action="append", default=[], help="a further folder of logs to start from"
    )
    parser.add_argument(
        "--save", type=Path, default=Path("fuzz-found"), help="where inputs that fail are kept"
    )
    parser.add_argument("--slow", type=float, default=10, help="seconds that one input of 256 KiB may take")
    parser.add_argument("--plain", action="store_true", help="without atheris")
    options = parser.parse_args()
    judge = Judge(options.save, options.slow)
    if options.files:
        check = load_pipeline()
        for path in options.files:
            judge.run(check, path.read_bytes())
        finish(judge)
    corpus = seeds([ROOT / "examples", ROOT / "tests" / "data", *options.seeds])
    guided = not options.plain
    if guided:
        guided = importlib.util.find_spec("atheris") is not None
        if not guided:
            print("atheris is not installed: mutating at random", flush=True)
    if guided:
        fuzz_guided(judge, corpus, Path(tempfile.mkdtemp()), options.seconds, options.seed)
    else:
        fuzz_plain(judge, corpus, options.seconds, options.seed)
    finish(judge)


if __name__ == "__main__":
    main()
