from __future__ import annotations

import importlib.metadata
from dataclasses import replace

import pytest

from oomph.predict.programs import load
from oomph.predict.programs.load import read
from oomph.tracing.programs.families import FAMILIES
from oomph.tracing.programs.record import Made
from oomph.tracing.programs.same import same_for_one
from oomph.tracing.programs.store import Store
from oomph.tracing.programs.ways import Way, made

WAY = Way("bf16", "sdpa", "grouped")


@pytest.fixture(scope="module")
def llama():
    return made(FAMILIES["llama"], WAY)


def shipped(family: str, way: Way):
    """The program in the file. Another transformers may do another thing: then files are not wrong, they are old."""
    file = load(f"transformers-{family}")
    installed = importlib.metadata.version("transformers").split(".")[0]
    assert file.versions["transformers"].split(".")[0] == installed
    [variant] = [
        each
        for each in file.variants
        if (each.precision, each.attention, each.heads, each.one, each.dropout)
        == (way.precision, way.attention, way.heads, way.one, way.dropout)
    ]
    return variant.program()


def test_llamas_file_has_what_the_installed_class_does(llama):
    assert shipped("llama", WAY) == program(llama)


def test_gpt2s_file_has_what_the_installed_class_does():
    way = Way("fp32-autocast", "eager", "equal", dropout=True)
    assert shipped("gpt2", way) == program(made(FAMILIES["gpt2"], way))


def test_a_batch_of_one_is_told_from_any_other(llama):
    """Labels of one sequence are contiguous after the shift, so that they need no copy; the layers do the same."""
    general, one = llama, made(FAMILIES["llama"], replace(WAY, one=True))
    assert not same_for_one(general, one)
    names = ("before", "block", "after")
    without_loss = [Made({name: each.sections[name] for name in names}, {}) for each in (general, one)]
    assert same_for_one(*without_loss)
    operators = [item[1] for item in general.sections["loss"]["items"] if item[0] == "op"]
    operators_of_one = [item[1] for item in one.sections["loss"]["items"] if item[0] == "op"]
    assert [name for name in operators if name != "aten.clone.default"] == operators_of_one


def test_sharing_sections_changes_no_program(llama):
    store = Store("transformers", "llama", {"torch": "2.13.0"}, {})
    store.add(
        {"precision": "bf16", "attention": "sdpa", "heads": "grouped", "one": False, "dropout": False}, llama
    )
    store.add(
        {"precision": "bf16", "attention": "sdpa", "heads": "equal", "one": False, "dropout": False}, llama
    )
    text = store.text()
    file = read(text)
    assert [each.heads for each in file.variants] == ["grouped", "equal"]
    assert file.variants[0].program() == file.variants[1].program() == program(llama)
    assert text.count("aten._scaled_dot_product_flash_attention.default") == 1


def program(one: Made):
    """As a file that has nothing else gives it."""
    store = Store("", "", {}, {})
    store.add({"precision": "", "attention": "", "heads": "", "one": False, "dropout": False}, one)
    return read(store.text()).variants[0].program()
