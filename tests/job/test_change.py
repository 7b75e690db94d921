"""Fields of a job changed by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.errors import UsageError
from oomph.job.change import setting, with_values
from oomph.job.model import Job, Lora, Method, Quantization


def changed(text: str, job: Job | None = None) -> Job:
    return with_values(job or Job(), dict([setting(text)]))


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("batch.micro=4", "batch.micro", 4),
        (" batch.micro = 4 ", "batch.micro", 4),
        ("batch.sequence=none", "batch.sequence", None),
        ("evaluation.batch=8", "evaluation.batch", 8),
        ("compile=true", "compile", True),
        ("compile=off", "compile", False),
        ("attention=flash-attention-2", "attention", "flash_attention_2"),
        ("precision.grads=bf16", "precision.grads", "bf16"),
        ("precision.grads=", "precision.grads", None),
        ("optimizer.momentum=0.9", "optimizer.momentum", 0.9),
        ("parallel.ddp_bucket_bytes=50MiB", "parallel.ddp_bucket_bytes", 50 << 20),
        ("parallel.ddp_bucket_bytes=1000", "parallel.ddp_bucket_bytes", 1000),
        ("hardware.free_bytes=31GiB", "hardware.free_bytes", 31 << 30),
        ("method.lora.rank=16", "method.lora", Lora(rank=16)),
        ("method.lora.targets=q_proj, v_proj", "method.lora.targets", ("q_proj", "v_proj")),
        ("method.quantization.kind=nf4", "method.quantization", Quantization(kind="nf4")),
        ("method.frozen=vision", "method.frozen", ("vision",)),
        ("model.family=llama", "model.family", "llama"),
    ],
)
def test_text_becomes_what_the_field_takes(text, path, value) -> None:
    found: object = changed(text)
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value


def test_a_part_that_is_there_keeps_its_other_fields() -> None:
    job = Job(method=Method("lora", Lora(rank=64, dropout=0.1)))
    assert changed("method.lora.rank=8", job).method.lora == Lora(rank=8, dropout=0.1)
    assert changed("method.lora=none", job).method.lora is None


def test_values_that_are_no_text_stand_as_they_are() -> None:
    job = with_values(Job(), {"batch.micro": 4, "method.lora.targets": ["q_proj"], "compile": True})
    assert (job.batch.micro, job.compile) == (4, True)
    assert job.method.lora is not None
    assert job.method.lora.targets == ("q_proj",)
    with pytest.raises(UsageError, match=r"batch\.micro: 4\.5 is no value for it; it takes a whole number"):
        with_values(Job(), {"batch.micro": 4.5})


def test_numbers_of_the_model() -> None:
    job = with_values(
        Job(), {"model.config.hidden_size": "64", "model.config.act": "silu", "model.config.tie": "true"}
    )
    assert (job.model.get("hidden_size"), job.model.get("act"), job.model.get("tie")) == (64, "silu", True)
    assert [each.key for each in job.model.config] == ["act", "hidden_size", "tie"]
    assert changed("model.config.hidden_size=128", job).model.get("hidden_size") == 128
    assert changed("model.config.sizes=[1, 2]").model.get("sizes") == (1, 2)
    with pytest.raises(UsageError, match=r"model\.config\.x: .* is no value for it"):
        changed('model.config.x={"a": 1}')


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("batch.mikro=4", "batch.mikro: nothing of a job is called mikro. Did you mean micro?"),
        ("potato=1", "Nothing of a job is called potato. There are model, method,"),
        ("batch.micro=x", "batch.micro: x is no value for it; it takes a whole number."),
        ("compile=maybe", "compile: maybe is no value for it; it takes true or false."),
        ("optimizer.momentum=x", "optimizer.momentum: x is no value for it; it takes a number."),
        ("attention=mine", "attention: mine is no value for it; it takes eager, sdpa,"),
        ("batch=4", "batch has parts; give one of them: batch.NAME with NAME of micro, sequence,"),
        ("batch.micro.x=4", "batch.micro.x: micro is one value and has no x."),
        ("method.quantization.double=true", "method.quantization.double: give kind of the same part first."),
        ("batch.micro", "batch.micro: write it as PATH=VALUE, as in batch.micro=4"),
        ("=4", "=4: write it as PATH=VALUE"),
    ],
)
def test_what_a_job_cannot_be_is_refused_with_what_there_is(text, sentence) -> None:
    with pytest.raises(UsageError) as caught:
        changed(text)
    assert str(caught.value).startswith(sentence)


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_path_and_no_value_raises_anything_else(path, value) -> None:
    for name in (path, f"batch.{path}", f"model.config.{path}", "batch.micro", "method.lora.targets"):
        try:
            with_values(Job(), {name: value})
        except UsageError as error:
            assert str(error)  # noqa: PT017 - either outcome is right
