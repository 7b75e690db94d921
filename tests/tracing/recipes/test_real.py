"""The recipes that come with oomph, against the real classes of transformers, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from oomph.predict.recipes.load import families, load
from tests.tracing.recipes.real import MODELS


def output(root, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", *arguments], cwd=root, capture_output=True, text=True, check=False
    )


def answers(root, *arguments: str) -> list[dict[str, object]]:
    """What every family's runs came to, traced in one process."""
    done = output(root, "-m", "tests.tracing.recipes.real", *arguments)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def real(request):
    return answers(request.config.rootpath)


@pytest.fixture(scope="module")
def small(request):
    return answers(request.config.rootpath, "--small")


@pytest.mark.parametrize("family", sorted(MODELS))
def test_a_recipe_is_the_trace_event_by_event(family, real):
    speaks_for_what_is_installed(family)
    mine = [answer for answer in real if answer["family"] == family]
    assert [answer for answer in mine if answer["difference"]] == []
    assert {answer["model"] for answer in mine} == set(MODELS[family])
    assert all(answer["events"] > 1000 for answer in mine)


@pytest.mark.parametrize("family", families())
def test_every_recipe_is_the_trace_of_a_small_model(family, small):
    # A change of what a trace says makes recipes stale: this test says which.
    speaks_for_what_is_installed(family)
    mine = [answer for answer in small if answer["family"] == family]
    assert [answer for answer in mine if answer["difference"]] == []
    assert len(mine) == len(load(family).variants)
    assert all(answer["events"] > 500 for answer in mine)


def speaks_for_what_is_installed(family: str) -> None:
    """Another transformers may do another thing: then the recipes are not wrong, they speak for theirs."""
    import importlib.metadata

    installed = importlib.metadata.version("transformers").split(".")[0]
    assert load(family).speaks_for.transformers.split(".")[0] == installed


def test_a_recipe_made_anew_is_the_same(request):
    tool = str(request.config.rootpath / "tools" / "make_recipes.py")
    arguments = ("gpt2", "--main", "--only", "bf16-autocast,full,checkpointing", "--check")
    done = output(request.config.rootpath, tool, *arguments)
    assert "the same" in done.stdout, done.stdout + done.stderr[-2000:]
    assert done.returncode == 0
