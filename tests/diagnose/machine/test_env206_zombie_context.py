"""An idle card uses some MiB; the smallest context that was reported takes 273.75 MiB (pytorch pull request 86509)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oomph.diagnose.machine.checks.env206_zombie_context import ZombieContext
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Card, CardProcess, Environment
from oomph.evidence.model import Quote
from oomph.units import GIB, MIB
from tests.diagnose.machine.built import ERROR, cards, clear, environment, not_here, problem, told, untold


def process(pid: int, used: int | None, **values: Any) -> CardProcess:
    return CardProcess(pid, used, "python", "C", Quote("smi", pid, "python"), **values)


def card(used: int | None, *those: CardProcess, **values: Any) -> Card:
    (one,) = cards("NVIDIA A100-SXM4-80GB")
    return replace(one, **{"total_bytes": 80 * GIB, "used_bytes": used, "processes": those, **values})


def of(*those: Card, **values: Any) -> Environment:
    return environment(cards=those, **values)


def test_memory_without_an_owner() -> None:
    found = problem(ZombieContext, of(card(30 * GIB), live=True))
    assert found.severity is ERROR
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"unowned_bytes": 30 * GIB}


def test_a_pasted_empty_list_may_be_of_a_container() -> None:
    assert "container" in untold(ZombieContext, of(card(30 * GIB)))
    # unless the same text lists processes of another card
    other = card(40 * GIB, process(7, 40 * GIB), index=1)
    assert problem(ZombieContext, of(card(30 * GIB), other)).certainty is Certainty.LIKELY


def test_what_an_idle_card_uses() -> None:
    assert clear(ZombieContext, of(card(256 * MIB), live=True))
    problem(ZombieContext, of(card(257 * MIB), live=True))


def test_what_a_process_is_not_charged_for() -> None:
    # managed memory stands in no process's figure
    assert clear(ZombieContext, of(card(41 * GIB, process(7, 40 * GIB)), live=True))
    found = problem(ZombieContext, of(card(50 * GIB, process(7, 40 * GIB)), live=True))
    assert found.certainty is Certainty.POSSIBLE


def test_what_the_driver_keeps() -> None:
    # NVML's older call counts what is reserved as used: used and free make the total.
    reserved = card(600 * MIB, free_bytes=80 * GIB - 600 * MIB, reserved_bytes=590 * MIB)
    assert clear(ZombieContext, of(reserved, live=True))
    unsaid = replace(reserved, reserved_bytes=None)
    assert clear(ZombieContext, of(unsaid, live=True, drivers=(told("535.104.05"),)))
    # before 510 the total leaves it out already
    problem(ZombieContext, of(unsaid, live=True, drivers=(told("470.57.02"),)))
    # nvidia-smi -q tells it apart: then it is not in "used"
    apart = card(600 * MIB, free_bytes=79 * GIB, reserved_bytes=424 * MIB)
    problem(ZombieContext, of(apart, live=True))


def test_a_screen() -> None:
    assert clear(ZombieContext, of(card(700 * MIB, display_active=True), live=True))


def test_a_process_that_is_gone() -> None:
    found = problem(ZombieContext, of(card(10 * GIB, process(187402, 10 * GIB, alive=False))))
    assert found.certainty is Certainty.CERTAIN
    assert "187402" in found.says
    assert clear(ZombieContext, of(card(10 * GIB, process(187402, 10 * GIB, alive=True))))


def test_a_process_that_nvidia_smi_cannot_name() -> None:
    # "[Not Found]" of newer versions, "Unknown Error" of older ones
    for name in ("[Not Found]", "Unknown Error"):
        found = problem(ZombieContext, of(card(10 * GIB, replace(process(31794, 10 * GIB), name=name))))
        assert found.certainty is Certainty.POSSIBLE
        assert "another container" in found.says


def test_where_the_list_proves_nothing() -> None:
    used = card(30 * GIB)
    assert "docker" in untold(ZombieContext, of(used, container=told("docker")))
    assert "hidden" in untold(ZombieContext, of(replace(used, hidden="hidden by a namespace")))
    assert "MIG" in untold(ZombieContext, of(replace(used, mig=True)))
    assert "Windows" in untold(ZombieContext, of(used, wsl=told(True)))
    assert "busy" in untold(ZombieContext, of(replace(used, utilization=97)))
    assert "nvidia-smi lists" in untold(ZombieContext, of(replace(used, processes=None)))
    assert "does not tell" in untold(ZombieContext, of(card(30 * GIB, process(7, None))))


def test_containers_that_share_the_hosts_processes() -> None:
    apptainer = told("apptainer")
    other = card(40 * GIB, process(7, 40 * GIB), index=1)
    assert problem(ZombieContext, of(card(30 * GIB), other, container=apptainer)).subject == "GPU 0"
    assert untold(ZombieContext, of(card(30 * GIB), other, container=told("docker")))
    # on the live machine the card itself says whether its list is whole
    assert problem(ZombieContext, of(card(30 * GIB), container=told("lxc"), live=True)).subject == "GPU 0"


def test_memory_that_the_operating_system_uses_too() -> None:
    grace = replace(card(2 * GIB), name="NVIDIA GH200 480GB")
    assert "operating system" in untold(ZombieContext, of(grace, live=True))


def test_nothing_to_look_at() -> None:
    assert not_here(ZombieContext, environment())
    assert not_here(ZombieContext, of(card(None, processes=None)))
