"""A program recorded with other groups of heads than the job's is said to stand in for it."""

from __future__ import annotations

from oomph.api import plan


def test_grouped_heads_of_a_family_recorded_with_equal_ones_are_said():
    given = plan("microsoft/phi-2", settings={"model.config.num_key_value_heads": 8}, gpu="a100-80gb")
    assert any("as many key-value heads as heads" in each for each in given.assumptions)


def test_nothing_is_said_where_the_recording_is_the_models():
    assert not any("key-value head" in each for each in plan("microsoft/phi-2", gpu="a100-80gb").assumptions)
    assert not any(
        "key-value head" in each for each in plan("meta-llama/Llama-3.1-8B", gpu="h100").assumptions
    )
