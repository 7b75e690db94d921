"""nvidia-smi -q: Persistence Mode; on Windows it is N/A."""

from __future__ import annotations

from dataclasses import replace

from oomph.diagnose.machine.checks.env201_persistence import PersistenceOff
from tests.diagnose.machine.built import NOTE, cards, clear, environment, not_here, problem, told

TWO = cards("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB")


def test_off() -> None:
    off = tuple(replace(one, persistence=False) for one in TWO)
    found = problem(PersistenceOff, environment(cards=off))
    assert found.severity is NOTE
    assert found.subject == "GPUs 0 and 1"


def test_on_or_not_told() -> None:
    assert clear(PersistenceOff, environment(cards=tuple(replace(one, persistence=True) for one in TWO)))
    assert not_here(PersistenceOff, environment(cards=TWO))


def test_where_it_means_nothing() -> None:
    off = tuple(replace(one, persistence=False) for one in TWO)
    assert not_here(PersistenceOff, environment(cards=off, wsl=told(True)))
    shown = tuple(replace(one, display_active=True) for one in off)
    assert not_here(PersistenceOff, environment(cards=shown))
