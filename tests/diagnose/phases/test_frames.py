"""The phase that a traceback proves, library by library.

frames/PHASE.txt hold tracebacks of that phase. They were made by small jobs on the CPU in which an out-of-memory error
was raised at a chosen operator (PyTorch 2.13, Transformers 5.24, TRL 1.16, Accelerate 1.15, Lightning 2.6, PEFT 0.21),
or looked up in the sources of the version that a title names.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from oomph.phases import Phase
from tests.diagnose.logs import diagnosed, oom, traceback

FOLDER = Path(__file__).parent / "frames"


@dataclass(frozen=True)
class Sample:
    phase: str
    title: str
    frames: tuple[str, ...]
    recompute: bool


def samples() -> list[Sample]:
    found = []
    for file in sorted(FOLDER.glob("*.txt")):
        for block in file.read_text(encoding="utf-8").split("\n== ")[1:]:
            title, *rows = block.strip().split("\n")
            frames = tuple(row for row in rows if row and row != "recompute")
            found.append(Sample(file.stem, title, frames, "recompute" in rows))
    return found


SAMPLES = samples()


def named(sample: Sample) -> str:
    return f"{sample.phase}: {sample.title}"


def test_every_phase_has_tracebacks() -> None:
    assert {sample.phase for sample in SAMPLES} == {str(phase) for phase in Phase}


@pytest.mark.parametrize("sample", SAMPLES, ids=named)
def test_phase_of_a_traceback(sample: Sample) -> None:
    verdict = diagnosed(traceback(sample.frames, oom())).phase
    assert str(verdict.phase) == sample.phase
    if sample.phase == "unknown":
        assert (verdict.evidence, verdict.frame) == ("none", None)
    else:
        assert verdict.evidence == "frame"
        # The frame that is named as the decider is one of the traceback's.
        assert any(f" in {verdict.frame.function}:" in frame for frame in sample.frames)
        assert verdict.frame.function in verdict.why or verdict.frame.code[:40] in verdict.why
    assert verdict.recompute is sample.recompute


@pytest.mark.parametrize("sample", SAMPLES, ids=named)
def test_windows_paths_change_nothing(sample: Sample) -> None:
    text = traceback(sample.frames, oom())
    for unix, windows in (
        ("/opt/venv/lib/python3.11/site-packages/", "C:/env/Lib/site-packages/"),
        ("/workspace/", "D:/work/"),
    ):
        text = text.replace(unix, windows)
    rows = [row.replace("/", "\\") if row.lstrip().startswith("File ") else row for row in text.split("\n")]
    assert str(diagnosed("\n".join(rows)).phase.phase) == sample.phase


@pytest.mark.parametrize("sample", SAMPLES, ids=named)
def test_a_rank_prefix_changes_nothing(sample: Sample) -> None:
    diagnosis = diagnosed(traceback(sample.frames, oom(gpu=3), prefix="[rank3]: "))
    assert (str(diagnosis.phase.phase), diagnosis.ranks.first) == (sample.phase, 3)
