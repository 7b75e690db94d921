"""Rows of the list of repeated advice: max_split_size_mb, the threshold, the fraction."""

from __future__ import annotations

from oomph.diagnose.machine.checks.env414_alloc_conf_does_not_do_that import AllocConfDoesNotDoThat
from tests.diagnose.machine.built import (
    NOTE,
    WARNING,
    clear,
    environment,
    not_here,
    problem,
    problems,
    untold,
    variables,
)


def conf(text: str | None) -> object:
    return environment(variables=variables(PYTORCH_CUDA_ALLOC_CONF=text))


def test_a_cap() -> None:
    found = problem(AllocConfDoesNotDoThat, conf("per_process_memory_fraction:0.9"))  # type: ignore[arg-type]
    assert found.severity is WARNING
    assert "10 %" in found.does
    clear(AllocConfDoesNotDoThat, conf("per_process_memory_fraction:1.0"))  # type: ignore[arg-type]


def test_splitting() -> None:
    found = problem(AllocConfDoesNotDoThat, conf("max_split_size_mb:128"))  # type: ignore[arg-type]
    assert found.severity is NOTE
    assert "128 MiB" in found.says


def test_a_threshold_without_a_cap() -> None:
    found = problem(AllocConfDoesNotDoThat, conf("garbage_collection_threshold:0.8"))  # type: ignore[arg-type]
    assert found.severity is NOTE
    both = problems(
        AllocConfDoesNotDoThat,
        conf("garbage_collection_threshold:0.8,per_process_memory_fraction:0.8"),  # type: ignore[arg-type]
    )
    assert [one.severity for one in both] == [WARNING]


def test_others() -> None:
    clear(AllocConfDoesNotDoThat, conf("expandable_segments:True"))  # type: ignore[arg-type]
    untold(AllocConfDoesNotDoThat, conf(None))  # type: ignore[arg-type]
    assert not_here(AllocConfDoesNotDoThat, environment())
