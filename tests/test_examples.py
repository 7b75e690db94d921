"""The examples are logs that could have happened, and oomph explains them as examples/README.md does."""

from __future__ import annotations

import re

import pytest

import oomph
from oomph.diagnose.model import Outcome
from oomph.evidence.run.data import Outcome as Ended
from oomph.evidence.run.read import read_run
from oomph.phases import Phase
from tests.conftest import ROOT

EXAMPLES = ROOT / "examples"

#: Example -> phase, rank that failed first, cause; what its author made it to be. In rank-logs 3.09e9 parameters need
#: 16 bytes each (weight, gradient, two Adam states): 46.0 GiB, on a card of 39.4.
MEANT = {
    "ddp-backward.log": (Phase.BACKWARD, 2, "activations"),
    "neighbour.log": (Phase.FORWARD, None, "other_process"),
    "fragmentation.log": (Phase.FORWARD, None, "fragmentation"),
    "rank-logs": (Phase.OPTIMIZER, 0, "static_state_too_big"),
    "leak": (Phase.BACKWARD, None, "growth_over_steps"),
}

_MIB = {"MiB": 1.0, "GiB": 1024.0}
_NUMBERS = re.compile(
    r"Tried to allocate (?P<request>[\d.]+ .iB)\. GPU \d has a total capacity of (?P<capacity>[\d.]+ .iB) of which "
    r"(?P<free>[\d.]+ .iB) is free\. (?:Process \d+ has (?P<other>[\d.]+ .iB) memory in use\. )?Including non-PyTorch "
    r"memory, this process has (?P<process>[\d.]+ .iB) memory in use\. Of the allocated memory "
    r"(?P<allocated>[\d.]+ .iB) is allocated by PyTorch, and (?P<cached>[\d.]+ .iB) is reserved"
)


def mib(text: str | None) -> float:
    if text is None:
        return 0.0
    number, unit = text.split()
    return float(number) * _MIB[unit]


def messages():
    for path in sorted(EXAMPLES.rglob("*")):
        if path.suffix in (".log", ".json"):
            for match in _NUMBERS.finditer(path.read_text(encoding="utf-8")):
                yield pytest.param({key: mib(text) for key, text in match.groupdict().items()}, id=path.name)


@pytest.mark.parametrize("sizes", list(messages()))
def test_the_numbers_of_every_example_add_up(sizes):
    # Two or three sizes are printed to 0.01 GiB = 10.24 MiB, each rounded by up to half of that.
    assert sizes["capacity"] == pytest.approx(sizes["free"] + sizes["other"] + sizes["process"], abs=15.4)
    outside = sizes["process"] - sizes["allocated"] - sizes["cached"]
    assert 300 < outside < 1500  # a CUDA context, with NCCL's buffers where there are ranks
    assert sizes["request"] % 2 < 0.01 or sizes["request"] > 1024  # the allocator asks for multiples of 2 MiB
    assert sizes["request"] > sizes["free"]


def test_every_example_has_an_expectation():
    # The script is for `oomph trace`, the run for `oomph verify`; README.md shows what they say, and tests/test_docs.py
    # compares.
    files = {"README.md", "train_decoder.py", "record_growth.py", "growing-run", "node"}
    others = {*files, "__pycache__", "oomph-runs", "oomph-bisect"}
    assert {path.name for path in EXAMPLES.iterdir()} - others == set(MEANT)


@pytest.mark.parametrize("name", MEANT)
def test_oomph_explains_every_example(name):
    phase, rank, cause = MEANT[name]
    diagnosis = oomph.explain([str(EXAMPLES / name)])
    assert diagnosis.outcome is Outcome.FAILED
    assert diagnosis.incident is not None
    assert diagnosis.incident.phase.phase is phase
    assert diagnosis.ranks.first == rank
    assert diagnosis.findings[0].cause == cause
    assert diagnosis.advice is not None


def test_the_growth_of_the_recorded_run_is_what_its_script_keeps():
    """256 rows of float32 in each step: the input (1,024), what GELU keeps and what the second layer keeps (2,048
    each), and the log-softmax (512)."""
    kept = 256 * 4 * (1024 + 2 * 2048 + 512)
    run = read_run(EXAMPLES / "growing-run")
    assert run.outcome is Ended.COMPLETED
    assert run.notes == ()
    ends = [step.counters.allocated_bytes for step in run.ranks[0].steps]
    assert len(ends) == 16
    assert (ends[-1] - ends[2]) / 13 == pytest.approx(kept, rel=0.01)


def test_the_node_and_its_script_have_what_was_put_into_them():
    """NVLink as a socket interface, "=" where PyTorch wants ":", a driver of CUDA 12.4 for a wheel of CUDA 13.0, and a
    neighbour; in the script, a strategy that does not exist, the model on the GPU before FSDP and without a wrap
    policy, evaluation with gradients on, a loss summed with its graph."""
    node = EXAMPLES / "node"
    assert sorted(one.code for one in oomph.doctor([node]).findings) == [
        "ENV101",
        "ENV205",
        "ENV403",
        "ENV411",
    ]
    found = oomph.doctor(scripts=[node / "train.py"]).findings
    assert sorted(one.code for one in found) == ["SCR101", "SCR105", "SCR106", "SCR107", "SCR110"]
