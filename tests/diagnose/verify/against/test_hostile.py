"""Whatever a fingerprint holds, a sentence comes of it and no traceback."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.diagnose.verify.against.recorded_job import _value, recorded_job
from oomph.errors import OomphError
from oomph.evidence.run.data import RunData
from oomph.evidence.run.files import LocalFiles
from oomph.evidence.run.model import Fingerprint, Run

KEYS = (
    "model.id", "model.model_type", "model.hidden_size", "model.num_hidden_layers", "model.dtypes", "model.parameters",
    "model.trainable", "model.adapter.default.r", "model.adapter.default.peft_type", "model.adapter.x.target_modules",
    "model.gradient_checkpointing", "model.attn_implementation", "arguments.per_device_train_batch_size",
    "arguments.fsdp", "arguments.deepspeed", "arguments.bf16", "arguments.optim", "arguments.torch_dtype",
    "arguments.a.b.c", "arguments.a", "arguments.", "versions.torch", "versions.transformers", "gpu.known_as",
    "arguments.parallelism_config.tp_size", "arguments.accelerator_config", "arguments.lora_r",
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(
        ("", "None", "True", "0", "-1", "1e400", "9" * 30, "[]", "{}", "{'a': {1, 2}}", "(1,", "gpt2", "llama", "LORA",
         "['q_proj', 3]", "bfloat16 3, float32 x", "\ud800", "\x00", "{1: 2}", "float('nan')", "[[[[]]]]", "b'x'", "1j")
    ),
    st.text(max_size=20),
)  # fmt: skip


def run_of(values: dict[str, str]) -> RunData:
    run = Run(1, "x", 0.0)
    return RunData("x", LocalFiles("x"), run, {}, fingerprints={0: Fingerprint(1, 0, values)})


def test_text_that_is_no_utf_8():
    """A fingerprint cannot hold any (JSON), but whoever made one may."""
    with suppress(OomphError):
        recorded_job(run_of({"arguments.bf16": "\ud800", "model.adapter.x.r": "\ud800", "model.id": "gpt2"}))


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8))
def test_any_fingerprint(values):
    with suppress(OomphError):
        found = recorded_job(run_of(values))
        assert found.job.model.name or found.job.model.family


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("True", True),
        ("None", None),
        ("['a', 'b']", ["a", "b"]),
        ("{'b', 'a'}", ["a", "b"]),
        ("adamw_torch", "adamw_torch"),
        ("(" * 100_000, "(" * 100_000),
        ("1j", "1j"),
    ],
)
def test_values_as_str_wrote_them(text, value):
    assert _value(text) == value
