"""What stands for keys that a config.json leaves out is what transformers' configuration class puts."""

from __future__ import annotations

from importlib import import_module

import pytest

from oomph.job.families import FAMILIES
from tests.job.families.meta import default_config


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_defaults(family: str) -> None:
    ours = import_module(f"oomph.job.families.{FAMILIES[family]}").DEFAULTS[family]
    theirs = default_config(family)
    assert {key: theirs.get(key, "nothing") for key in ours} == ours
