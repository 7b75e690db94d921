"""The traced peaks of a repro are those of the job, phase by phase."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from oomph.trial.repro import Asked, write
from tests.trial.repro.cases import CASES, JOBS, STEP, Case
from tests.trial.repro.tracer import Tracer

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")
#: How far a repro may be from the job.
CLOSE = 0.02


@pytest.fixture(scope="module")
def tracer() -> Iterator[Tracer]:
    found = Tracer()
    yield found
    found.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_peaks_of_the_job(case: Case, tracer: Tracer, tmp_path: Path) -> None:
    script = tmp_path / "repro.py"
    script.write_text(write(Asked(case.job)).text, encoding="utf-8")
    real = tracer.run(JOBS / f"{case.name}.py", case.world)["peaks"]
    answer = tracer.run(script, case.world)
    mine = answer["peaks"]
    assert set(real) == set(mine) == set(case.phases)
    apart = {phase: mine[phase] / real[phase] - 1 for phase in case.phases}
    assert all(abs(share) <= CLOSE for share in apart.values()), apart
    # What it prints itself are PyTorch's own counters, in GiB.
    printed = dict(re.findall(r"rank 0: (\w+) +at most ([0-9.]+) GiB allocated", answer["printed"]))
    assert list(printed) == list(case.phases)
    # (A trace counts what a script allocates between two phases to the first of them.)
    for phase in ("forward", "backward", "eval"):
        if phase in printed:
            assert float(printed[phase]) == pytest.approx(real[phase] / 2**30, rel=CLOSE, abs=0.006)


@pytest.mark.parametrize(
    ("name", "phase", "ran"),
    [
        ("llama_loop", "load", ("load",)),
        ("llama_loop", "backward", ("load", "forward", "backward", "optimizer")),
        ("gpt2_trainer", "forward", ("load", "forward", "backward", "optimizer")),
        ("gpt2_trainer", "optimizer", STEP),
    ],
)
def test_it_stops_after_the_phase(
    name: str, phase: str, ran: tuple[str, ...], tracer: Tracer, tmp_path: Path
) -> None:
    case = next(each for each in CASES if each.name == name)
    script = tmp_path / "repro.py"
    script.write_text(write(Asked(case.job)).text, encoding="utf-8")
    answer = tracer.run(script, case.world, "--phase", phase)
    assert set(answer["peaks"]) == set(ran)
    passes = {"load": 0, "forward": 2, "backward": 2, "optimizer": 2}[phase]
    assert passes == 0 or "eval" not in answer["printed"]


def test_options_change_the_shapes(tracer: Tracer, tmp_path: Path) -> None:
    """Logits in bf16 and fp32, log-softmax, and its gradient: at least 2 + 4 + 4 bytes for each of them, twice as many
    for twice the batch or twice the length."""
    case = CASES[0]
    script = tmp_path / "repro.py"
    script.write_text(write(Asked(case.job)).text, encoding="utf-8")
    few = tracer.run(script, 1, "--batch", "2", "--seq", "384", "--phase", "backward")["peaks"]["forward"]
    short = tracer.run(script, 1, "--batch", "4", "--seq", "192", "--phase", "backward")["peaks"]["forward"]
    full = tracer.run(script, 1, "--phase", "backward")["peaks"]["forward"]
    logits = 2 * 384 * 32000
    assert full - few > 10 * logits
    assert short == pytest.approx(few, rel=CLOSE)
