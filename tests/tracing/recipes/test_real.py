"""The recipes that come with oomph, against the real classes of transformers, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from oomph.predict.recipes.load import load
from tests.tracing.recipes.real import MODELS


def output(root, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", *arguments], cwd=root, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def answers(request):
    """What every family's runs came to, traced in one process."""
    done = output(request.config.rootpath, "-m", "tests.tracing.recipes.real")
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("family", sorted(MODELS))
def test_a_recipe_is_the_trace_event_by_event(family, answers):
    speaks_for_what_is_installed(family)
    mine = [answer for answer in answers if answer["family"] == family]
    assert [answer for answer in mine if answer["difference"]] == []
    assert len(mine) >= 2 * len(MODELS[family])
    assert all(answer["events"] > 1000 for answer in mine)


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
