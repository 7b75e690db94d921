"""docs/jobs.md names every field of a job, every choice and every family."""

from __future__ import annotations

import re
from typing import Any, get_args, get_type_hints

import msgspec

from oomph.job.families import FAMILIES
from oomph.job.model import Dimension, Job
from oomph.job.toml import from_toml
from tests.conftest import ROOT

TEXT = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")


def _words(kind: Any) -> set[str]:
    """Names of fields and of choices, all the way down."""
    found: set[str] = set()
    for each in (kind, *get_args(kind)):
        if isinstance(each, str):
            found.add(each)
        elif isinstance(each, type) and issubclass(each, msgspec.Struct) and each is not Dimension:
            for name, hint in get_type_hints(each).items():
                found |= {name} | _words(hint)
        elif get_args(each) and each is not kind:
            found |= _words(each)
    return found


def test_every_field_and_choice_is_named() -> None:
    assert {
        word for word in _words(Job) if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", TEXT)
    } == set()


def test_every_family_is_named() -> None:
    assert {
        name for name in FAMILIES if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", TEXT)
    } == set()


def test_every_example_is_a_job() -> None:
    examples = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    assert len(examples) == 4
    for example in examples:
        from_toml(example)
