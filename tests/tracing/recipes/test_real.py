"""The recipes that come with oomph, against the real classes of transformers: each family in a process of its own."""

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


@pytest.mark.parametrize("family", sorted(MODELS))
def test_a_recipe_is_the_trace_event_by_event(family, request):
    assert family in families()
    speaks_for_what_is_installed(family)
    done = output(request.config.rootpath, "-m", "tests.tracing.recipes.real", family)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr[-2000:]
    assert [answer for answer in answers if answer["difference"]] == []
    assert len(answers) >= 4 * len(MODELS[family]) - 2
    assert all(answer["events"] > 1000 for answer in answers)


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
