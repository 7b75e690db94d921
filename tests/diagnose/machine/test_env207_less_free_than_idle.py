"""Totals that nvidia-smi shows of a card: hardware/gpus.json."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oomph.diagnose.machine.checks.env207_less_free_than_idle import LessFreeThanIdle
from oomph.evidence.environment.model import Card, CardProcess, Environment
from oomph.units import GIB, MIB
from tests.diagnose.machine.built import (
    QUOTE,
    WARNING,
    cards,
    clear,
    environment,
    not_here,
    problem,
    told,
    untold,
)


def card(name: str = "NVIDIA A100-SXM4-80GB", **values: Any) -> Card:
    (one,) = cards(name)
    return replace(one, **{"processes": (), **values})


def of(*those: Card, **values: Any) -> Environment:
    return environment(cards=those, **values)


def test_a_container_hides_who_it_is() -> None:
    used = card(used_bytes=31 * GIB, free_bytes=48 * GIB, total_bytes=80 * GIB)
    found = problem(LessFreeThanIdle, of(used, container=told("docker")))
    assert found.severity is WARNING
    assert "31.00 GiB of 80.00 GiB" in found.says
    assert "48.00 GiB is free" in found.says
    problem(LessFreeThanIdle, of(replace(used, hidden="no other namespace is seen")))


def test_a_busy_card_may_be_busy_with_the_job() -> None:
    used = card(used_bytes=31 * GIB, utilization=98)
    assert "98 %" in untold(LessFreeThanIdle, of(used, container=told("docker")))


def test_both_sides_of_idle() -> None:
    container = {"container": told("docker")}
    assert clear(LessFreeThanIdle, of(card(used_bytes=256 * MIB), **container))
    problem(LessFreeThanIdle, of(card(used_bytes=257 * MIB), **container))
    # Windows keeps its desktop on the card
    assert clear(LessFreeThanIdle, of(card(used_bytes=2048 * MIB), wsl=told(True)))
    problem(LessFreeThanIdle, of(card(used_bytes=2049 * MIB), wsl=told(True)))


def test_a_whole_list_is_another_checks() -> None:
    assert not_here(LessFreeThanIdle, of(card(used_bytes=31 * GIB), live=True))
    own = CardProcess(7, 40 * GIB, "python", "C", QUOTE)
    other = card(index=1, used_bytes=40 * GIB, processes=(own,))
    assert not_here(LessFreeThanIdle, of(card(used_bytes=31 * GIB), other))


def test_an_empty_list_of_nobody_knows_where() -> None:
    found = problem(LessFreeThanIdle, of(card(used_bytes=31 * GIB)))
    assert found.severity is WARNING
    assert "container" in found.says
    assert "died" in found.says


def test_no_list() -> None:
    used = card(used_bytes=31 * GIB, processes=None)
    assert "31.00 GiB" in untold(LessFreeThanIdle, of(used))
    assert not_here(LessFreeThanIdle, of(card(processes=None)))


def test_a_virtual_gpu() -> None:
    found = problem(LessFreeThanIdle, of(card("GRID A100-10C", total_bytes=10 * GIB)))
    assert "GRID A100-10C" in found.says
    problem(LessFreeThanIdle, of(card("NVIDIA A40-48Q", total_bytes=48 * GIB)))
    assert not_here(LessFreeThanIdle, of(card("GRID K520", total_bytes=4 * GIB, processes=None)))
    # names with a dash and a number that are whole cards
    for name, total in (("Tesla V100-SXM2-32GB", 32768), ("Tesla V100-PCIE-16GB", 16384)):
        assert not_here(LessFreeThanIdle, of(card(name, total_bytes=total * MIB, processes=None)))


def test_a_part_of_a_card_under_the_whole_ones_name() -> None:
    # an A100 80 GB shows 81251 or 81920 MiB; 88 % of 81251 are 71500.88
    assert not_here(LessFreeThanIdle, of(card(total_bytes=71501 * MIB, processes=None)))
    found = problem(LessFreeThanIdle, of(card(total_bytes=71500 * MIB, processes=None)))
    assert "such cards have" in found.says


def test_ecc_is_no_missing_memory() -> None:
    # A10: 24564 MiB without, 22731 with ECC
    assert not_here(LessFreeThanIdle, of(card("NVIDIA A10", total_bytes=22731 * MIB, processes=None)))


def test_consumer_cards_are_sold_in_several_sizes() -> None:
    assert not_here(
        LessFreeThanIdle, of(card("NVIDIA GeForce RTX 3060", total_bytes=8192 * MIB, processes=None))
    )


def test_nothing_to_look_at() -> None:
    assert not_here(LessFreeThanIdle, environment())
