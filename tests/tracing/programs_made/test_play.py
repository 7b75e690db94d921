from __future__ import annotations

import pytest

from oomph.predict.programs import load
from oomph.tracing.programs.families import FAMILIES
from oomph.tracing.programs.ways import Way, subject_of
from tests.tracing.programs_made.play import Played, measured

# None of the numbers that programs are recorded at; four layers, where programs are recorded with three.
DIMENSIONS = {
    "b": 6, "s": 352, "layers": 4, "hidden": 12 * 32, "intermediate": 936, "heads": 12, "kv_heads": 4, "groups": 3,
    "head_dim": 32, "vocab": 3301, "positions": 3001, "rotary": 16, "experts": 9, "top_k": 3, "classes": 15,
}  # fmt: skip
EQUAL, SINGLE = {"kv_heads": 12, "groups": 1}, {"kv_heads": 1, "groups": 12}
WAYS = [
    ("llama", Way("bf16", "sdpa", "grouped"), {}),
    ("llama", Way("fp32", "sdpa", "grouped"), {}),
    ("llama", Way("fp32-autocast", "eager", "equal"), EQUAL),
    ("llama", Way("bf16", "sdpa", "grouped", one=True), {"b": 1}),
    ("gpt2", Way("bf16-autocast", "sdpa", "equal", dropout=True), EQUAL),
    # Each layer's attention lives until the next layer has returned.
    ("falcon", Way("fp32", "eager", "single"), SINGLE),
    ("mixtral", Way("bf16", "eager", "grouped"), {}),
    # Two kinds of layers, of which one has a mask.
    ("gemma3_text", Way("bf16", "sdpa", "grouped", window=True), {"layers": 6}),
    # The first layer has no norm.
    ("modernbert", Way("fp32-autocast", "sdpa", "equal", task="sequence_classification"), EQUAL),
]


@pytest.mark.parametrize(
    ("family", "way", "more"), WAYS, ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_program_played_takes_what_the_forward_pass_takes(family, way, more):
    dimensions, spec = DIMENSIONS | more, FAMILIES[family]
    [variant] = [each for each in load(f"transformers-{family}").variants if chosen(each) == way]
    played = Played(variant.program(), dimensions, spec.kinds if way.window else ())
    most, end = measured(subject_of(spec, way), dimensions)
    assert played.end == end
    assert played.peak == most


def chosen(variant) -> Way:
    keys = (variant.precision, variant.attention, variant.heads, variant.one, variant.dropout)
    return Way(*keys, **variant.more)
