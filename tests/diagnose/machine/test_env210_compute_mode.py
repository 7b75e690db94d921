"""nvidia-smi -q: Compute Mode; CUDA's error 46, "all CUDA-capable devices are busy or unavailable"."""

from __future__ import annotations

from dataclasses import replace

from oomph.diagnose.machine.checks.env210_compute_mode import ComputeMode
from oomph.evidence.environment.model import Card, CardProcess
from tests.diagnose.machine.built import (
    ERROR,
    NOTE,
    QUOTE,
    WARNING,
    cards,
    clear,
    environment,
    launch,
    not_here,
    problem,
)

(CARD,) = cards("NVIDIA A100-SXM4-80GB")


def mode(word: str, **values: object) -> Card:
    return replace(CARD, compute_mode=word, **values)  # type: ignore[arg-type]


def test_prohibited() -> None:
    found = problem(ComputeMode, environment(cards=(mode("Prohibited"),)))
    assert found.severity is ERROR
    assert found.paste == "sudo nvidia-smi -i 0 -c DEFAULT"


def test_exclusive_with_one_process_per_card_works() -> None:
    for word in ("Exclusive_Process", "E. Process", "Exclusive Process"):
        assert problem(ComputeMode, environment(cards=(mode(word),))).severity is NOTE
    made = environment(cards=(mode("Exclusive_Process"),), launches=(launch("torchrun", processes=1),))
    assert problem(ComputeMode, made).severity is NOTE


def test_exclusive_and_more_processes_than_cards() -> None:
    made = environment(cards=(mode("Exclusive_Process"),), launches=(launch("torchrun", processes=2),))
    assert problem(ComputeMode, made).severity is ERROR


def test_exclusive_and_taken() -> None:
    taken = mode("Exclusive_Process", processes=(CardProcess(7, 1 << 30, "python", "C", QUOTE),))
    assert problem(ComputeMode, environment(cards=(taken,))).severity is WARNING
    assert problem(ComputeMode, environment(cards=(taken,), live=True)).severity is ERROR
    drawn = mode("Exclusive_Process", processes=(CardProcess(7, 1 << 20, "Xorg", "G", QUOTE),))
    assert problem(ComputeMode, environment(cards=(drawn,))).severity is NOTE


def test_default_or_not_told() -> None:
    assert clear(ComputeMode, environment(cards=(mode("Default"),)))
    assert not_here(ComputeMode, environment(cards=(CARD,)))
