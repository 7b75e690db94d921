"""Models by the names that people write."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest

from oomph.errors import InputError, UsageError
from oomph.job import models
from oomph.job.config import from_config, from_folder, stored_dtype, to_config
from oomph.job.families import FAMILIES, architecture, dimensions
from oomph.job.names import close, model, shipped
from tests.job.families.meta import model_of


@pytest.fixture(autouse=True)
def no_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("meta-llama/llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("Llama 3.1 8B", "meta-llama/Llama-3.1-8B"),
        ("llama3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("llama-2-7b", "meta-llama/Llama-2-7b-hf"),
        ("Llama-2-70b", "meta-llama/Llama-2-70b-hf"),
        ("meta-llama/Llama-2-7b", "meta-llama/Llama-2-7b-hf"),
        ("meta-llama-3-8b-instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("llama-3-8b", "meta-llama/Meta-Llama-3-8B"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct", "meta-llama/Meta-Llama-3.1-8B-Instruct"),
        ("qwen2.5-7b-instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("gemma-2-9b", "google/gemma-2-9b"),
        ("gpt2", "gpt2"),
        ("GPT2-XL", "gpt2-xl"),
        ("mistral-7b-v0.1", "mistralai/Mistral-7B-v0.1"),
    ],
)
def test_as_people_write_them(written: str, found: str) -> None:
    assert model(written).name == found


@pytest.mark.parametrize("name", ["meta-llama/Lama-3.1-8B", "lama-3.1-8b", "somebody/llama-3.1-8b-medical"])
def test_a_name_that_is_not_known_is_refused_with_close_ones(name: str) -> None:
    with pytest.raises(UsageError, match=r"meta-llama/.*Llama-3\.1-8B"):
        model(name)


def test_another_organisation_s_model_is_not_taken_for_the_one_it_resembles() -> None:
    with pytest.raises(UsageError, match=r"No model 'somebody/Llama-3\.1-8B'"):
        model("somebody/Llama-3.1-8B")


@pytest.mark.parametrize("name", ["", "   ", "x" * 100_000, "a\0b", "../" * 4000, "no/such/thing", "\ud800"])
def test_no_name_raises_anything_but_a_sentence(name: str) -> None:
    with pytest.raises((UsageError, InputError)):
        model(name)


@pytest.mark.parametrize("name", ["mixtral-8x22b", "mistral-7b"])
def test_a_name_that_several_different_models_have_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=rf"^{name} can be .* or .*: say which\.$"):
        model(name)


def test_a_name_without_its_version_where_that_is_enough() -> None:
    assert model("mixtral-8x7b").name == "mistralai/Mixtral-8x7B-v0.1"
    assert model("vicuna-7b").get("hidden_size") == 4096
    assert model("granite-3.1-2b").get("vocab_size") == 49155


def test_every_shipped_name_is_found_without_its_organisation() -> None:
    for name in models.names():
        if name.count("/") > 1:  # a part of a pipeline
            continue
        exact, found = shipped(name), model(name.rpartition("/")[2])
        assert exact is not None
        assert found.family == exact.family
        if exact.family in FAMILIES:
            assert architecture(found).parameters == architecture(exact).parameters


def test_a_folder_and_a_file(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "rope_scaling": {"factor": 8.0},
        "eos_token_id": [1, 2],
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    for path in (tmp_path, tmp_path / "config.json"):
        found = model(str(path))
        assert found.family == "llama"
        assert found.get("hidden_size") == 64
        assert found.get("rope_scaling.factor") == 8.0
        assert found.get("eos_token_id") == (1, 2)
        assert to_config(found) == config


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"hidden_size": 1}', '{"model_type": 3}', "[" * 100_000, "\xff"]
)
def test_a_file_that_is_no_configuration(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=r"config\.json|model_type"):
        from_folder(tmp_path)


def test_the_local_cache_of_the_hub(tmp_path: Path) -> None:
    folder = tmp_path / "hub" / "models--somebody--thing"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    for commit, hidden in (("abc", 64), ("aaa", 32)):
        (folder / "snapshots" / commit).mkdir(parents=True)
        (folder / "snapshots" / commit / "config.json").write_text(
            f'{{"model_type": "llama", "hidden_size": {hidden}}}'
        )
    found = model("somebody/thing")
    assert (found.name, found.get("hidden_size")) == ("somebody/thing", 64)


def test_the_hub_is_asked_only_where_that_was_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": 64}')
    fake = types.ModuleType("huggingface_hub")

    def download(name: str, file: str) -> str:
        asked.append((name, file))
        if name == "somebody/gone":
            raise OSError("404\nmore")
        return str(tmp_path / file)

    fake.hf_hub_download = download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    with pytest.raises(UsageError):
        model("somebody/else")
    assert asked == []
    assert model("somebody/else", network=True).name == "somebody/else"
    assert asked == [("somebody/else", "config.json")]
    with pytest.raises(InputError, match=r"no config\.json of somebody/gone: 404$"):
        model("somebody/gone", network=True)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UsageError, match="pip install huggingface_hub"):
        model("somebody/else", network=True)


def test_the_dtype_of_stored_weights() -> None:
    assert stored_dtype(model("meta-llama/Llama-3.1-8B")) == "bf16"
    assert stored_dtype(model_of("llama", torch_dtype="torch.float16")) == "fp16"
    assert stored_dtype(model_of("llama", dtype="float32")) == "fp32"
    assert stored_dtype(model_of("llama")) is None


def test_a_configuration_goes_there_and_back() -> None:
    for name in models.names():
        known = models.find(name)
        assert known is not None
        assert to_config(from_config(known.config)) == known.config


def test_close_names_are_few() -> None:
    assert len(close("llama")) <= 4
    assert close("q" * 10_000) == []


def test_dimensions_of_ashipped_model() -> None:
    assert dimensions(model("llama-3.1-8b")) == {
        "layers": 32,
        "hidden": 4096,
        "intermediate": 14336,
        "heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "vocab": 128256,
        "positions": 131072,
    }
