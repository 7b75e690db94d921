from __future__ import annotations

import pytest

from oomph.predict.programs import load
from oomph.tracing.programs.families import FAMILIES, model
from oomph.tracing.programs.tasks import TASKS
from tests.tracing.programs_made.play import Played, measured

# None of the numbers that programs are recorded at; four layers, where programs are recorded with three.
DIMENSIONS = {
    "b": 6, "s": 352, "layers": 4, "hidden": 12 * 32, "intermediate": 936, "heads": 12, "kv_heads": 4, "groups": 3,
    "head_dim": 32, "vocab": 3301, "positions": 3001, "rotary": 16,
}  # fmt: skip


def variant(family: str, precision: str, attention: str, heads: str, dropout: bool = False):
    [found] = [
        each
        for each in load(f"transformers-{family}").variants
        if (each.precision, each.attention, each.heads, each.dropout)
        == (precision, attention, heads, dropout)
        and not each.one
    ]
    return found.program()


@pytest.mark.parametrize(
    ("family", "precision", "attention", "heads"),
    [
        ("llama", "bf16", "sdpa", "grouped"),
        ("llama", "fp32-autocast", "eager", "equal"),
        ("llama", "fp32", "sdpa", "grouped"),
    ],
)
def test_a_program_played_takes_what_the_forward_pass_takes(family, precision, attention, heads):
    dimensions = dict(DIMENSIONS)
    if heads == "equal":
        dimensions |= {"kv_heads": 12, "groups": 1}
    played = Played(variant(family, precision, attention, heads), dimensions)
    spec = FAMILIES[family]
    most, end = measured(
        lambda each: model(spec, each, attention), TASKS["causal_lm"].run, dimensions, precision
    )
    assert played.end == end
    assert played.peak == most
