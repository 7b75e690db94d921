"""Reasons: PyTorch 2.13's own (`test_alloc_settings.py` runs them), and 2.4's source for the strict form."""

from __future__ import annotations

import pytest

from oomph.diagnose.machine.checks.env411_alloc_conf_refused import AllocConfRefused
from tests.diagnose.machine.built import (
    ERROR,
    clear,
    environment,
    not_here,
    problem,
    torch,
    untold,
    variables,
)

NEW, OLD = torch("2.13.0"), torch("2.4.1")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("expandable_segments:true", "expandable_segments:True"),
        ("expandable_segments=True", "expandable_segments:True"),
        ("expandable_segments:1", "expandable_segments:True"),
        ("max_split_size_mb=128", "max_split_size_mb:128"),
        ("max_split_size_mb:10", "max_split_size_mb:21"),
        (
            "max_split_size_mb:128;garbage_collection_threshold:0.8",
            "max_split_size_mb:128,garbage_collection_threshold:0.8",
        ),
        ("'expandable_segments:True'", "expandable_segments:True"),
        ("expandable_segment:True", "expandable_segments:True"),
        (
            "max_split_size_mb:128 garbage_collection_threshold:0.8",
            "max_split_size_mb:128,garbage_collection_threshold:0.8",
        ),
        ("garbage_collection_threshold:80", "garbage_collection_threshold:0.8"),
        ("garbage_collection_threshold:1.0", ""),
        ("roundup_power2_divisions:3", ""),
    ],
)
@pytest.mark.parametrize("build", [NEW, OLD])
def test_what_is_refused(text: str, right: str, build: object) -> None:
    made = environment(variables=variables(PYTORCH_CUDA_ALLOC_CONF=text), torch=build)
    found = problem(AllocConfRefused, made)
    assert found.severity is ERROR
    assert text in found.says
    assert found.paste == (
        f"export PYTORCH_CUDA_ALLOC_CONF={right}" if right else "unset PYTORCH_CUDA_ALLOC_CONF"
    )


def test_pytorchs_own_words() -> None:
    made = environment(variables=variables(PYTORCH_ALLOC_CONF="expandable_segments:true"), torch=NEW)
    assert (
        "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'"
        in problem(AllocConfRefused, made).says
    )
    made = environment(variables=variables(PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:10"), torch=NEW)
    assert (
        "CachingAllocator option max_split_size_mb too small, must be >= 20"
        in problem(AllocConfRefused, made).says
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "expandable_segments:True",
        "max_split_size_mb:128, garbage_collection_threshold:0.6",
        "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
        "backend:cudaMallocAsync",
    ],
)
def test_what_is_taken(text: str) -> None:
    for build in (NEW, OLD, ()):
        clear(AllocConfRefused, environment(variables=variables(PYTORCH_CUDA_ALLOC_CONF=text), torch=build))


def test_by_version() -> None:
    """20 MB: allowed from 2.10 on. An option of 2.10 in 2.4. Without a version neither is claimed."""
    twenty = variables(PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:20")
    clear(AllocConfRefused, environment(variables=twenty, torch=NEW))
    assert "must be > 20" in problem(AllocConfRefused, environment(variables=twenty, torch=OLD)).says
    assert "version is not told" in untold(AllocConfRefused, environment(variables=twenty))
    old = environment(
        variables=variables(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"), torch=torch("2.0.1")
    )
    assert "install PyTorch 2.1 or newer" in problem(AllocConfRefused, old).fix
    fraction = variables(PYTORCH_CUDA_ALLOC_CONF="per_process_memory_fraction:0.9")
    clear(AllocConfRefused, environment(variables=fraction, torch=NEW))
    assert (
        "Unrecognized CachingAllocator option"
        in problem(AllocConfRefused, environment(variables=fraction, torch=OLD)).says
    )


def test_unknown_value_none_and_a_name_that_is_not_read() -> None:
    untold(AllocConfRefused, environment(variables=variables(PYTORCH_CUDA_ALLOC_CONF=None)))
    assert not_here(AllocConfRefused, environment())
    assert not_here(AllocConfRefused, environment(variables=variables(PYTORCH_ALLOC_CONF="x"), torch=OLD))
