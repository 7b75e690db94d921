"""What was alive at the moment, as a flame graph of bytes for https://www.speedscope.app.

The format is speedscope's own (src/lib/file-format-spec.ts in jlfwong/speedscope): frames once, and "sampled" profiles
whose samples are stacks, outermost frame first, each with a weight. A sample here is all blocks of one stack, its
weight their bytes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomph import __version__
from oomph.diagnose.snapshot.places import is_python
from oomph.memory.categories import CATEGORIES, Category
from oomph.memory.stacks import Frame
from oomph.report.exports.names import Names
from oomph.report.exports.target import replacing
from oomph.units import format_bytes

if TYPE_CHECKING:
    from oomph.diagnose.snapshot.analysis import Analysis

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_NO_STACK = Frame("(no stack was recorded)", "", 0)
#: Frames that PyTorch's recorder itself puts innermost (torch/csrc/profiler/unwind, combined_traceback.cpp and
#: cuda/memory_snapshot.cpp; seen in real snapshots): every allocation has them, and they allocate nothing.
_RECORDER = (
    "torch::unwind::",
    "torch::CapturedTraceback::gather",
    "torch::cuda::(anonymous namespace)::gather",
)
#: Of one profile: bytes by stack, outermost frame first, as indices of shared frames.
_Samples = dict[tuple[int, ...], int]


def write_speedscope(target: Path, analysis: Analysis, *, redact: bool = False) -> None:
    """Writes what was alive at the analysis's moment. See `exports.export`."""
    content = speedscope(analysis, redact=redact)
    with replacing(target) as stream:
        # Without ensure_ascii, names in other scripts are three times as long.
        stream.write(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())


def speedscope(analysis: Analysis, *, redact: bool = False) -> dict[str, Any]:
    """The file's content: a profile of everything, then one per category, largest first."""
    stacks = analysis.block_stack[analysis.alive].tolist()
    sizes = analysis.alive_bytes.tolist()
    categories = analysis.block_category[analysis.alive].tolist()
    unfolded = {stack: _told(analysis.frames(stack)) or (_NO_STACK,) for stack in set(stacks)}
    frames = {frame: None for stack in unfolded.values() for frame in stack}
    names = Names(redact=redact, source=analysis.snapshot.source, frames=frames)
    shared = {frame: number for number, frame in enumerate(frames)}
    outermost_first = {
        stack: tuple(shared[frame] for frame in reversed(content)) for stack, content in unfolded.items()
    }
    everything: _Samples = defaultdict(int)
    by_category: dict[Category, _Samples] = defaultdict(lambda: defaultdict(int))
    for stack, size, category in zip(stacks, sizes, categories, strict=True):
        everything[outermost_first[stack]] += size
        by_category[CATEGORIES[category]][outermost_first[stack]] += size
    order = sorted(by_category.items(), key=lambda item: -sum(item[1].values()))
    profiles = [_profile("everything", everything)]
    profiles += [_profile(str(category), samples) for category, samples in order]
    return {
        "$schema": SCHEMA,
        "name": _title(analysis, names),
        "exporter": f"oomph@{__version__}",
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(names.frame(frame)) for frame in frames]},
        "profiles": profiles,
    }


def _profile(name: str, samples: _Samples) -> dict[str, Any]:
    """Samples in the order of their frames, so that stacks that begin alike stand side by side."""
    total = sum(samples.values())
    ordered = sorted(samples.items())
    return {
        "type": "sampled",
        "name": f"{name}: {format_bytes(total)}",
        "unit": "bytes",
        "startValue": 0,
        "endValue": total,
        "samples": [list(stack) for stack, _ in ordered],
        "weights": [size for _, size in ordered],
    }


def _told(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The frames that say what was computed: Python's and those of C++. Between them lie those of the interpreter and
    of the C library (`_PyEval_EvalFrameDefault`, `start_thread`), three for each of Python's, and the recorder's."""
    kept = tuple(
        frame
        for frame in frames
        if is_python(frame) or ("::" in frame.function and not frame.function.startswith(_RECORDER))
    )
    return kept or frames


def _frame(frame: Frame) -> dict[str, Any]:
    """A frame of the file. C++ frames have no line, and line 0 is none for speedscope."""
    shown: dict[str, Any] = {"name": frame.function or "?"}
    if frame.file:
        shown["file"] = frame.file
    if frame.line > 0:
        shown["line"] = frame.line
    return shown


def _title(analysis: Analysis, names: Names) -> str:
    moment = analysis.moment
    source = names.file(Path(analysis.snapshot.source).name)
    return f"{source}, device {analysis.index}: alive at {moment.kind} (event {moment.position})"
