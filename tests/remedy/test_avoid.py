"""What not to do, and the number that says why."""

from __future__ import annotations

import pytest

from oomph.diagnose.rules import all_rules
from oomph.remedy.avoid import avoid
from tests.remedy.cases import FRAGMENTED, case_of, finding_of


@pytest.mark.parametrize("cause", [rule.cause for rule in all_rules()])
def test_every_cause_has_something_to_avoid(cause: str) -> None:
    said = avoid(case_of(), finding_of(cause))
    assert 1 <= len(said) <= 3
    assert len(set(said)) == len(said)
    assert all(sentence.endswith(".") for sentence in said)


def test_allocator_settings_are_ruled_out_with_both_numbers() -> None:
    said = avoid(case_of(), finding_of("activations"))
    # 481.28 MiB of cache, 508.00 MiB asked
    assert any(
        "all 481.28 MiB of cache together could not hold the 508.00 MiB" in sentence for sentence in said
    )


def test_allocator_settings_are_not_ruled_out_where_the_cache_was_large_enough() -> None:
    said = avoid(case_of(FRAGMENTED), finding_of("activations"))
    assert not any("allocator settings" in sentence for sentence in said)


def test_a_micro_batch_of_one_cannot_be_lowered() -> None:
    said = avoid(case_of(facts={"batch_size": 1}), finding_of("activations"))
    assert said[0] == "Lowering the micro-batch: it is 1 already."


def test_expandable_segments_that_are_on_are_named() -> None:
    case = case_of(facts={"alloc_conf": "expandable_segments:True"})
    assert any("on already" in sentence for sentence in avoid(case, finding_of("activations")))


def test_empty_cache_is_not_discussed_where_no_allocator_spoke() -> None:
    case = case_of("RuntimeError: CUDA error: out of memory")
    assert not any("released its cache" in sentence for sentence in avoid(case, finding_of("activations")))
