"""Jobs as TOML files."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from oomph.errors import InputError, OomphError, UsageError
from oomph.job.model import (
    Batch,
    Dimension,
    Framework,
    Hardware,
    Job,
    Lora,
    Method,
    Model,
    Objective,
    Parallel,
    Quantization,
    ReferenceName,
)
from oomph.job.names import model
from oomph.job.toml import from_toml, to_toml
from tests.job.strategies import JOBS


@given(JOBS)
def test_every_job_comes_back(job: Job) -> None:
    assert from_toml(to_toml(job)) == job


@pytest.mark.parametrize("name", ["initial", "copy", "adapters_off", "precomputed", "without"])
def test_every_reference_comes_back(name: ReferenceName) -> None:
    """A file's "none" is nothing at all."""
    job = Job(objective=Objective(name="dpo", reference=name))
    assert from_toml(to_toml(job)) == job


def test_nothing_is_the_default_job() -> None:
    assert to_toml(Job()) == ""
    assert from_toml("") == Job()


def test_a_model_by_name_alone() -> None:
    job = from_toml('model = "llama-3.1-8b"\n')
    assert job == Job(model=model("meta-llama/Llama-3.1-8B"))
    assert to_toml(job) == 'model = "meta-llama/Llama-3.1-8B"\n'


def test_what_it_looks_like() -> None:
    job = Job(
        model=model("Qwen/Qwen2.5-7B"),
        attention="flash_attention_2",
        method=Method(
            name="qlora", lora=Lora(rank=16, targets=("all-linear",)), quantization=Quantization(kind="nf4")
        ),
        batch=Batch(micro=2, sequence=None),
        framework=Framework(name="trl", versions=(("torch", "2.4.1"), ("transformers", "4.48.1"))),
    )
    assert to_toml(job) == (
        'model = "Qwen/Qwen2.5-7B"\n'
        'attention = "flash_attention_2"\n'
        "\n[method]\n"
        'name = "qlora"\n'
        "\n[method.lora]\n"
        "rank = 16\n"
        'targets = ["all-linear"]\n'
        "\n[method.quantization]\n"
        'kind = "nf4"\n'
        "\n[batch]\n"
        "micro = 2\n"
        'sequence = "none"\n'
        "\n[framework]\n"
        'name = "trl"\n'
        "\n[framework.versions]\n"
        'torch = "2.4.1"\n'
        'transformers = "4.48.1"\n'
    )


def test_own_dimensions_on_top_of_a_known_model() -> None:
    job = from_toml(
        '[model]\nname = "llama-3.1-8b"\n[model.config]\nnum_hidden_layers = 4\nrope_scaling.factor = 2.0\n'
    )
    assert job.model.family == "llama"
    assert job.model.get("num_hidden_layers") == 4
    assert job.model.get("hidden_size") == 4096
    assert job.model.get("rope_scaling.factor") == 2.0
    assert from_toml(to_toml(job)) == job


def test_dimensions_alone() -> None:
    text = '[model.config]\nmodel_type = "llama"\nhidden_size = 64\nhead_dims = [1, 2]\n'
    assert from_toml(text).model == Model(
        family="llama",
        config=(
            Dimension(key="head_dims", value=(1, 2)),
            Dimension(key="hidden_size", value=64),
            Dimension(key="model_type", value="llama"),
        ),
    )


def test_sizes_and_round_numbers() -> None:
    job = from_toml(
        '[parallel]\nstrategy = "ddp"\nddp_bucket_bytes = "25MiB"\nzero_reduce_bucket = 5e8\n'
        '[hardware]\nfree_bytes = "31GiB"\n'
    )
    assert job.parallel == Parallel(
        strategy="ddp", ddp_bucket_bytes=25 * 2**20, zero_reduce_bucket=500_000_000
    )
    assert job.hardware == Hardware(free_bytes=31 * 2**30)


def test_an_empty_table_is_the_part_as_by_default() -> None:
    assert from_toml("[method.lora]").method.lora == Lora()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("batchsize = 2", "A job has no batchsize; did you mean batch"),
        ("[batch]\nmicros = 2", r"no batch\.micros; did you mean micro\?"),
        ("[paralel]\ndata = 2", "no paralel; did you mean parallel"),
        ("[batch]\nqqq = 2", "there are micro, sequence, target, accumulation"),
        ('[batch]\nmicro = "two"', r"batch\.micro: two is no value for it; it takes a whole number\."),
        ("[batch]\nmicro = 1.5", r"batch\.micro: 1\.5"),
        ("[batch]\nmicro = true", r"batch\.micro: True"),
        ("batch = 4", r"batch takes a table: \[batch\]"),
        ('batch = "none"', "batch takes a table"),
        (
            '[parallel]\nstrategy = "SHARD_FULL"',
            "SHARD_FULL is no value for it; it takes none, ddp, fsdp1_full_shard",
        ),
        ('[parallel]\nddp_bucket_bytes = "25 apples"', 'it takes a whole number or a size such as "25MiB"'),
        ("[method.quantization]\ndouble = true", r"method\.quantization needs kind"),
        ("[method.lora]\ntargets = 3", "it takes a list of names"),
        ("[framework]\nversions = 3", "table of libraries"),
        ("model = 3", "model takes a name in quotes"),
        ("[model]\nnames = 3", r"no model\.names; did you mean name"),
        ("[model]\nconfig = 3", "model.config takes a table"),
        ('model = "lama-3.1-8b"', "meta-llama/Llama-3.1-8B"),
        ('[precision]\ngrads = "fp64"', "it takes fp32, tf32, bf16"),
    ],
)
def test_what_no_job_has_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        from_toml(text)


@pytest.mark.parametrize(
    "text", ["x", "a = [", "a" * 100_000, "a=" + "[" * 100_000, "\0", "a = 1\na = 2", "\ud800"]
)
def test_what_is_not_toml(text: str) -> None:
    with pytest.raises(InputError, match="not TOML"):
        from_toml(text)


def test_hostile_values_are_sentences() -> None:
    for text in (
        f"[batch]\nmicro = {'9' * 400}",
        f'attention = "{"x" * 100_000}"',
        "[[batch]]",
        "[model]\nnulls=3",
    ):
        with pytest.raises(OomphError) as caught:
            from_toml(text)
        assert len(str(caught.value)) < 500


def test_every_field_is_reachable() -> None:
    job = Job(method=Method(lora=Lora(), quantization=Quantization(kind="nf4")))
    for part in msgspec.structs.fields(Job):
        value = getattr(job, part.name)
        if part.name not in ("model", "framework") and isinstance(value, msgspec.Struct):
            for field in msgspec.structs.fields(type(value)):
                with pytest.raises(OomphError, match=rf"{part.name}\.{field.name}"):
                    from_toml(f"[{part.name}]\n{field.name} = 1979-05-27")
