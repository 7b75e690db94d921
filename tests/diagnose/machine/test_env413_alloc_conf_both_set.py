"""Which name wins: run on 2.13 (`test_alloc_settings.py`)."""

from __future__ import annotations

from oomph.diagnose.machine.checks.env413_alloc_conf_both_set import AllocConfBothSet
from tests.diagnose.machine.built import (
    NOTE,
    WARNING,
    clear,
    environment,
    not_here,
    problem,
    torch,
    variables,
)


def test_both() -> None:
    made = variables(
        PYTORCH_ALLOC_CONF="expandable_segments:True", PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:128"
    )
    found = problem(AllocConfBothSet, environment(variables=made))
    assert found.severity is WARNING
    assert "PYTORCH_CUDA_ALLOC_CONF counts" in found.says
    assert "PYTORCH_ALLOC_CONF says is not in effect" in found.does
    old = problem(AllocConfBothSet, environment(variables=made, torch=torch("2.4.0")))
    assert old.paste.startswith("unset PYTORCH_ALLOC_CONF;")


def test_what_is_pasted_is_what_pytorch_takes() -> None:
    made = variables(PYTORCH_ALLOC_CONF="x", PYTORCH_CUDA_ALLOC_CONF="expandable_segments=true")
    found = problem(AllocConfBothSet, environment(variables=made, torch=torch("2.13.0")))
    assert found.paste == "unset PYTORCH_CUDA_ALLOC_CONF; export PYTORCH_ALLOC_CONF=expandable_segments:True"


def test_both_the_same() -> None:
    text = "expandable_segments:True"
    made = variables(PYTORCH_ALLOC_CONF=text, PYTORCH_CUDA_ALLOC_CONF=text)
    assert problem(AllocConfBothSet, environment(variables=made)).severity is NOTE


def test_one_or_none() -> None:
    clear(AllocConfBothSet, environment(variables=variables(PYTORCH_ALLOC_CONF="expandable_segments:True")))
    assert not_here(AllocConfBothSet, environment())
