"""The recording tools on a small framework of this test's own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from oomph.predict.programs.load import read
from oomph.tracing.programs.store import Store
from tools.frameworks import trees
from tools.frameworks.recordings import Loss, Recording, fill

MODEL = """
import torch
from missing_kernels import fast_norm
from missing_kernels.triton import jit


@jit
def kernel(pointer):
    pass


class Block(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.linear = torch.nn.Linear(hidden, hidden, bias=False)

    def forward(self, x):
        return x + torch.nn.functional.silu(self.linear(x))


class Model(torch.nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        assert not isinstance(self, fast_norm)
        self.embed = torch.nn.Embedding(vocab, hidden)
        self.layers = torch.nn.ModuleList(Block(hidden) for _ in range(3))
        self.head = torch.nn.Linear(hidden, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    package = tmp_path / "small_framework"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('the whole trainer')")
    (package / "model.py").write_text(MODEL)
    path, finders, modules = list(sys.path), list(sys.meta_path), set(sys.modules)
    yield tmp_path
    sys.path[:], sys.meta_path[:] = path, finders
    for name in set(sys.modules) - modules:
        if name.startswith(("small_framework", "missing_kernels")):
            del sys.modules[name]


def _build(dimensions: Mapping[str, int]) -> Any:
    return trees.module("small_framework.model").Model(dimensions["vocab"], dimensions["hidden"])


def _mean(net: Any, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    del dimensions
    logits = net(batch["input_ids"])
    return {"loss": logits.float().mean(), "logits": logits}


def _square(net: Any, batch: Mapping[str, Any], dimensions: Mapping[str, int]) -> dict[str, Any]:
    del dimensions
    return {"loss": net(batch["input_ids"]).square().mean()}


def test_a_framework_that_is_not_installed_becomes_a_file(tree: Path) -> None:
    trees.use(tree, ("missing_kernels",))
    trees.bare(tree, "small_framework")
    store = Store("small", "toy", {"small": "1"}, {})
    ways = [Recording(_build, "layers", (Loss("eager_fp32", _mean, "head"), Loss("square", _square, "head")))]
    told: list[str] = []
    fill(store, ways, lambda choice: told.append(choice["loss"]))
    assert told == ["eager_fp32", "square"]
    file = read(store.text())
    assert (file.framework, file.family) == ("small", "toy")
    assert [(each.more["loss"], each.one) for each in file.variants] == [
        ("eager_fp32", False),
        ("square", False),
    ]
    first, second = (each.program() for each in file.variants)
    assert "logits" in first.kept
    assert list(second.kept) == ["loss"]
    # what the losses share is written once
    rows = json.loads(store.text())["variants"]
    assert rows[0]["sections"]["block"] == rows[1]["sections"]["block"]
    assert rows[0]["sections"]["loss"] != rows[1]["sections"]["loss"]


def test_a_tree_that_is_not_there_ends_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is no folder"):
        trees.use(tmp_path / "nowhere")
