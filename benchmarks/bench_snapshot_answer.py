"""The whole answer of `oomph snapshot`, against loading the file, and against other tools on the same file.

    python benchmarks/bench_snapshot_answer.py [--events 1000000] [--file SNAPSHOT]
        [--peer-python VENV/bin/python] [--torch-python VENV/bin/python]

Without a file, a snapshot is made first: a training job on the simulated allocator, with stacks, that ends in a request
that fails. Every measurement is a process of its own, in turns, the best of three counts, in processor time. Prints
ratios with their bounds:

- the text answer, its imports aside, over `pickle.load` alone, the garbage collector off for both: time (3) and
  memory (1.5); once with the compiled modules of a wheel, where there is a compiler, and once for the checkout, which
  is pure Python;
- one replay of a what-if table over the same load (3);
- pt-snap-cli (`--peer-python`: an environment that has it), its import and its leak, gap and peak answers, over the
  command `oomph snapshot` from start to exit (at least 5);
- each command of torch.cuda._memory_viz (`--torch-python`), beyond importing torch, over the same (above 1).
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench_allocator import MIB, ROOT, compiled_source, script

_TURNS = 3
_GIB = 1 << 30
_LOAD = """
import gc, json, pickle, resource, sys, time
gc.disable()
with open(sys.argv[1], "rb") as file:
    begun = time.process_time()
    kept = pickle.load(file)
    seconds = time.process_time() - begun
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""
_ANSWER = """
import gc, json, resource, sys, time
gc.disable()  # as the command does
from oomph.api import snapshot_with_analyses
from oomph.diagnose import engine
from oomph.diagnose.snapshot import build, join
from oomph.remedy import advise
from oomph.evidence.snapshot import scan
from oomph.report.snapshot.options import SnapshotOptions
from oomph.report.snapshot.text import render_text
what_if = tuple(sys.argv[2:])
begun = time.process_time()
report, analyses = snapshot_with_analyses(sys.argv[1], what_if=what_if)
text = render_text(report, SnapshotOptions())
seconds = time.process_time() - begun
trials = [len(device.what_if.trials) for device in report.devices if device.what_if]
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([seconds, memory, sum(trials), len(text), scan.COMPILED]))
"""
_PEER = {"leaks": "leak_detection", "gap": "allocator_gap", "peak": "memory_peak"}
_VIZ = {
    "stats": [],
    "trace": [],
    "segments": ["-o", "{out}"],
    "memory": ["-o", "{out}"],
    "trace_plot": ["-o", "{out}"],
    "segment_plot": ["-o", "{out}"],
}


def write(path: Path, events: int) -> None:
    """A snapshot of about `events` events of a training job on the simulated allocator, consistent in itself."""
    from oomph.memory.allocator import arena
    from oomph.memory.allocator.core import CachingAllocator
    from oomph.memory.allocator.driver import Driver
    from oomph.memory.allocator.errors import DeviceOutOfMemory
    from oomph.memory.allocator.settings import AllocatorSettings

    down = (1 << 56) - (1 << 47)  # made-up addresses lie above all real ones
    stacks = list(_stacks())
    allocator = CachingAllocator(AllocatorSettings(), 64 * _GIB, Driver.descending())
    trace: list[dict[str, Any]] = []
    alive: list[tuple[int, int, list[dict[str, Any]]]] = []
    names = {arena.SEGMENT_ALLOC: "segment_alloc", arena.SEGMENT_FREE: "segment_free"}
    seen = 0

    def event(action: str, address: int, size: int, frames: list[dict[str, Any]]) -> None:
        trace.append(
            {
                "action": action,
                "addr": address - down,
                "size": size,
                "stream": 0,
                "time_us": 1_700_000_000_000_000 + 7 * len(trace),
                "compile_context": "N/A",
                "frames": list(frames),
            }
        )

    def segments(frames: list[dict[str, Any]]) -> None:
        nonlocal seen
        for kind, address, size, _ in allocator.segment_events[seen:]:
            if kind in names:
                event(names[kind], address, size, frames)
        seen = len(allocator.segment_events)

    # A free is two events.
    for number, step in enumerate(script(events * 2 // 3)):
        if len(trace) >= events:
            break
        frames = stacks[number * 7919 % len(stacks)]
        if step > 0:
            address = allocator.malloc(step)
            segments(frames)
            event("alloc", address, step, frames)
            alive.append((address, step, frames))
        else:
            address, size, frames = alive.pop(step)
            event("free_requested", address, size, frames)
            allocator.free(address)
            event("free_completed", address, size, frames)
    try:
        allocator.malloc(80 * _GIB)
    except DeviceOutOfMemory:
        segments(stacks[0])
        event("oom", down, 80 * _GIB, stacks[0])
        del trace[-1]["addr"]
        trace[-1]["device_free"] = 64 * _GIB - allocator.reserved_bytes
    frames_at = {address: frames for address, _, frames in alive}
    held = [_segment(state, down, frames_at) for state in allocator.layout()]
    with path.open("wb") as file:
        pickle.dump({"segments": held, "device_traces": [trace], "allocator_settings": {}}, file)


def _stacks() -> Iterator[list[dict[str, Any]]]:
    """Stacks of a model's layers in forward and backward, and of an optimizer, over shared frames."""
    main = [
        {"name": name, "filename": "/job/train.py", "line": line}
        for name, line in (("step", 80), ("main", 120))
    ]
    call = {"name": "_call_impl", "filename": "/env/torch/nn/modules/module.py", "line": 1747}
    for layer in range(48):
        block = [
            {"name": "forward", "filename": f"/job/model/block{layer % 6}.py", "line": 40 + layer},
            call,
            {"name": "forward", "filename": "/job/model/net.py", "line": 200 + layer},
            call,
        ]
        for kind, line in (("linear", 125), ("functional", 2900), ("normalization", 217)):
            inner = {"name": "forward", "filename": f"/env/torch/nn/modules/{kind}.py", "line": line}
            yield [inner, call, *block, *main]
    backward = {"name": "backward", "filename": "/env/torch/_tensor.py", "line": 581}
    yield [
        {"name": "_engine_run_backward", "filename": "/env/torch/autograd/graph.py", "line": 825},
        backward,
        *main,
    ]
    yield [{"name": "_init_group", "filename": "/env/torch/optim/adamw.py", "line": 180}, *main]


def _segment(state: Any, down: int, frames_at: dict[int, list[dict[str, Any]]]) -> dict[str, Any]:
    blocks = [
        {
            "address": block.address - down,
            "size": block.size,
            "requested_size": block.requested,
            "state": block.state,
            "frames": frames_at.get(block.address, []),
        }
        for block in state.blocks
    ]
    return {
        "device": 0,
        "address": state.address - down,
        "total_size": state.size,
        "allocated_size": sum(each["size"] for each in blocks if each["state"] == "active_allocated"),
        "active_size": sum(each["size"] for each in blocks if each["state"] != "inactive"),
        "requested_size": sum(each["requested_size"] for each in blocks),
        "stream": state.stream,
        "segment_type": "small" if state.small else "large",
        "segment_pool_id": state.pool,
        "is_expandable": state.expandable,
        "frames": [],
        "blocks": blocks,
    }


def inside(code: str, arguments: list[str], source: Path) -> list[Any]:
    """What `code` prints as JSON, run in another process."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def outside(command: list[str], source: Path | None = None, good: tuple[int, ...] = (0,)) -> float:
    """Processor seconds of a command from start to exit. Raises CalledProcessError when it fails."""
    environment = dict(os.environ) if source is None else {**os.environ, "PYTHONPATH": str(source)}
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, text=True
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in good:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=said)
    return usage.ru_utime + usage.ru_stime


def best(measures: dict[str, Callable[[], list[Any]]]) -> dict[str, list[Any]]:
    """The fastest of each, taken in turns."""
    found: dict[str, list[Any]] = {}
    for _ in range(_TURNS):
        for name, measure in measures.items():
            now = measure()
            if name not in found or now[0] < found[name][0]:
                found[name] = now
    return found


def say(what: str, ratio: float, bound: float, *, least: bool = False) -> None:
    held = ratio >= bound if least else ratio <= bound
    print(
        f"  {what:<46} {ratio:7.2f}   {'at least' if least else 'at most'} {bound:g}: {'yes' if held else 'NO'}"
    )


def against_load(path: Path, sources: dict[str, Path]) -> None:
    file = str(path)
    measures: dict[str, Callable[[], list[Any]]] = {"load": partial(inside, _LOAD, [file], ROOT / "src")}
    for name, source in sources.items():
        measures[name] = partial(inside, _ANSWER, [file], source)
        measures[f"{name} all"] = partial(inside, _ANSWER, [file, "all"], source)
    found = best(measures)
    load = found["load"]
    print(f"pickle.load alone: {load[0]:.2f} s")
    for name in sources:
        answer, table = found[name], found[f"{name} all"]
        assert answer[4] == (name == "compiled")
        replays = max(table[2], 1)
        each = (table[0] - answer[0]) / replays
        print(f"{name}: answer {answer[0]:.2f} s, {replays} replays of {each:.2f} s each")
        say("time of the answer / pickle.load", answer[0] / load[0], 3)
        say("time of one replay / pickle.load", each / load[0], 3)
        say("memory of the answer / pickle.load", answer[1] / load[1], 1.5)
        say("memory of answer and replays / pickle.load", table[1] / load[1], 1.5)


def against_others(path: Path, sources: dict[str, Path], options: argparse.Namespace, folder: Path) -> None:
    ours = {}
    for name, source in sources.items():
        command = [sys.executable, "-m", "oomph", "snapshot", str(path)]
        ours[name] = min(outside(command, source, (0, 1)) for _ in range(_TURNS))
        print(f"oomph snapshot, start to exit, {name}: {ours[name]:.2f} s")
    if options.peer_python is None:
        print("pt-snap-cli: not compared (--peer-python)")
    else:
        _peer(path, options.peer_python, folder, ours)
    if options.torch_python is None:
        print("torch.cuda._memory_viz: not compared (--torch-python)")
    else:
        _viz(path, options.torch_python, folder, ours)


def _peer(path: Path, python: Path, folder: Path, ours: dict[str, float]) -> None:
    command = str(python.parent / "pt-snap")
    database = folder / f"{path.name}.db"
    work = [command, "import", str(path), "--force", "--no-focus", "--output-dir", str(folder)]
    try:
        spent = {"import": min(outside(work) for _ in range(_TURNS))}
        for name, template in _PEER.items():
            query = [command, "query", str(database), "--template-use", template, "-n", "20"]
            spent[name] = min(outside(query) for _ in range(_TURNS))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"pt-snap-cli: does not run here ({_why(error)})")
        return
    print("pt-snap-cli: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in spent.items()))
    for name, seconds in ours.items():
        say(f"pt-snap-cli / oomph snapshot, {name}", sum(spent.values()) / seconds, 5, least=True)


def _viz(path: Path, python: Path, folder: Path, ours: dict[str, float]) -> None:
    start = [str(python), "-m", "torch.cuda._memory_viz"]
    alone = min(outside([str(python), "-c", "import torch.cuda._memory_viz"]) for _ in range(_TURNS))
    print(f"torch: import {alone:.2f} s")
    for name, more in _VIZ.items():
        command = [*start, name, str(path), *(each.format(out=folder / "out") for each in more)]
        try:
            spent = min(outside(command) for _ in range(_TURNS)) - alone
        except subprocess.CalledProcessError as error:
            print(f"  {name} does not run here ({_why(error)})")
            continue
        for ours_name, seconds in ours.items():
            say(f"{name} {spent:.2f} s / oomph, {ours_name}", spent / seconds, 1, least=True)


def _why(error: Exception) -> str:
    lines = str(getattr(error, "stderr", None) or error).strip().splitlines()
    return lines[-1][:100]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--peer-python", type=Path)
    parser.add_argument("--torch-python", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = options.file or folder / "snapshot.pickle"
        if options.file is None:
            write(path, options.events)
        sources = {}
        try:
            sources["compiled"] = compiled_source(folder)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"compiled: not on this machine ({type(error).__name__})")
        sources["pure"] = ROOT / "src"
        print(f"{path.name}: {path.stat().st_size / MIB:.0f} MiB")
        against_load(path, sources)
        against_others(path, sources, options, folder)


if __name__ == "__main__":
    main()
