"""What is read, what is refused, and with which sentence."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.errors import InputError, OomphError, UsageError
from oomph.job.importers import merge, read
from oomph.job.importers.recognise import READERS
from oomph.job.model import Job

FILES = Path(__file__).with_name("files")
TEXTS = {path.name: path.read_text() for path in sorted(FILES.iterdir())}


def test_pickles_are_refused_with_what_to_do(tmp_path):
    for content in (pickle.dumps({"a": 1}), b"PK\x03\x04rest of a zip"):
        file = tmp_path / "training_args.bin"
        file.write_bytes(content)
        with pytest.raises(InputError, match="print the arguments"):
            read(file)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("hello there", "no keys and values"),
        ("a: [1, 2", "line"),
        ("a: 1\n---\nb: 2\n", "2 YAML documents"),
        ("a: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a: &x [*x]\nb: *x\n", "levels"),
        ("[" * 5_000, "YAML"),
        ("x: " + "9" * 5_000, "YAML"),
        ("colour: red\nsize: 3\n", "its keys: colour, size"),
        ('{"a": 1}', "its keys: a"),
        ("#!/bin/bash\necho hello\n", "without a command"),
        ("GenerationConfig(max_length=20)", "GenerationConfig"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text, says):
    with pytest.raises(InputError) as error:
        read(text)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_aliases_do_not_grow():
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
    )
    with pytest.raises(InputError, match="more than 100000 values"):
        read(bomb)
    many = "a: &a 1\nb: [" + ", ".join(["*a"] * 2_000) + "]\n"
    with pytest.raises(InputError, match="aliases"):
        read(many)


def test_sizes_are_limited(tmp_path):
    with pytest.raises(InputError, match="no YAML configuration is that large"):
        read("a: 1\n" * 100_000)
    file = tmp_path / "big.json"
    file.write_bytes(b" " * 5_000_000)
    with pytest.raises(InputError, match="larger than"):
        read(file)


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match="folder"):
        read(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "missing.json")
    binary = tmp_path / "x.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="not text"):
        read(binary)


def test_a_byte_order_mark_is_no_content(tmp_path):
    file = tmp_path / "config.json"
    file.write_bytes(b"\xef\xbb\xbf" + (FILES / "config.json").read_bytes())
    assert read(file).kind == "config.json"


def test_a_name_of_a_file_is_read_as_one():
    assert read(str(FILES / "sft.yaml")).name == "sft.yaml"


def test_a_kind_can_be_named():
    assert read("r: 4\ntarget_modules: [q_proj]\n", kind="peft").kind == "PEFT"
    with pytest.raises(UsageError, match="no format"):
        read("r: 4", kind="word")


def test_unknown_keys_are_named_and_harmless_ones_are_not():
    imported = read(
        json.dumps({"peft_type": "LORA", "r": 4, "new_memory_thing": 3, "lora_alpha": 8, "task_type": "X"})
    )
    assert imported.unknown == ("new_memory_thing = 3",)


def anything():
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    )


def survives(text, kind=None):
    """Reading and merging gives a job or a sentence, nothing else."""
    try:
        imported = read(text, kind)
        job, notes = merge(imported)
    except OomphError:
        return
    assert isinstance(job, Job)
    assert all(isinstance(note, str) for note in notes)


@settings(max_examples=150)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    survives(text)


@settings(max_examples=200)
@given(st.data())
def test_damaged_files_are_read_or_refused(data):
    text = data.draw(st.sampled_from(sorted(TEXTS.values())))
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 60))
    survives(text[:start] + data.draw(st.text(max_size=8)) + text[start + length :])


@settings(max_examples=150)
@given(st.data())
def test_any_value_under_a_known_key_is_read_or_refused(data):
    from oomph.job.importers.formats import (
        accelerate,
        axolotl,
        deepspeed,
        llama_factory,
        megatron,
        peft,
        torchtune,
        trl,
    )
    from oomph.job.importers.formats import training_arguments as plain

    tables = {
        "Accelerate": accelerate._KEYS,
        "axolotl": axolotl._KEYS,
        "DeepSpeed": deepspeed._KEYS,
        "LLaMA-Factory": llama_factory._KEYS,
        "Megatron-LM": megatron._KEYS,
        "PEFT": peft.KEYS,
        "TrainingArguments": plain.KEYS,
        "TRL": trl._MORE,
        "torchtune": torchtune._KEYS,
    }
    kind = data.draw(st.sampled_from(sorted(tables)))
    keys = data.draw(st.lists(st.sampled_from(sorted(tables[kind])), min_size=1, max_size=4))
    survives(json.dumps({key: data.draw(anything()) for key in keys}), kind)


@pytest.mark.parametrize("kind", sorted(READERS))
def test_every_reader_survives_the_files_of_the_others(kind):
    for text in TEXTS.values():
        survives(text, kind)
