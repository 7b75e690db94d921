"""Plans against traces of transformers' own classes in a loop of PyTorch: what is allocated at the most in each phase,
over a selection of the product of families, attention, precision, methods, optimizers, checkpoints and sharding."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.predict.grid.cases import Case
from tests.predict.grid.pairs import pairwise
from tests.predict.grid.product import FACTORS, selected
from tests.predict.grid.running import Tracer, planned

#: As many as a minute and a half has room for; `python -m tests.predict.grid` compares until every pair has occurred.
MOST = 20
NEAR = 0.01


@pytest.fixture(scope="module")
def tracer() -> Iterator[Tracer]:
    pytest.importorskip("transformers", reason="the grid traces transformers' classes")
    pytest.importorskip("peft", reason="the grid traces PEFT's adapters")
    pytest.importorskip("bitsandbytes", reason="the grid traces quantised weights")
    process = Tracer()
    yield process
    process.close()


@pytest.mark.parametrize("case", selected(MOST), ids=lambda case: case.name)
def test_every_phase_is_within_one_percent_of_the_trace(case: Case, tracer: Tracer) -> None:
    traced = tracer.peaks(case)
    found = planned(case)
    assert found.keys() >= traced.keys()
    for phase, size in traced.items():
        assert abs(found[phase] / size - 1) <= NEAR, phase


def test_every_value_occurs() -> None:
    cases = [case.name for case in selected(MOST)]
    for name, values in FACTORS.items():
        for value in values:
            word = str(value).replace(" ", "_")
            assert any(word in each.split("-") or f"-{word}-" in f"-{each}-" for each in cases), (name, value)


def test_pairs_of_three_factors_with_two_values() -> None:
    rows = pairwise({"a": (0, 1), "b": (0, 1), "c": (0, 1)}, lambda row: True)
    for one, other in (("a", "b"), ("a", "c"), ("b", "c")):
        assert {(row[one], row[other]) for row in rows} == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_what_may_not_be_together_is_not() -> None:
    rows = pairwise({"a": (0, 1), "b": (0, 1)}, lambda row: not (row.get("a") == row.get("b") == 1))
    assert sorted((row["a"], row["b"]) for row in rows) == [(0, 0), (0, 1), (1, 0)]
