"""CUDA programming guide, "CUDA Environment Variables", and torch.cuda's own reading of CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oomph.diagnose.machine.checks.env209_visible_devices import VisibleDevices
from oomph.diagnose.machine.devices import read_devices
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment, MigDevice, Variable
from oomph.evidence.model import Quote
from tests.diagnose.machine.built import (
    ERROR,
    NOTE,
    WARNING,
    cards,
    clear,
    environment,
    launch,
    not_here,
    problem,
    told,
    untold,
    variables,
)

FOUR = tuple(
    replace(one, uuid=f"GPU-{index}{index}aa-0")
    for index, one in enumerate(cards(*["NVIDIA A100-SXM4-80GB"] * 4))
)


def made(value: str | None, scope: str = "process", **values: Any) -> Environment:
    return environment(variables=variables(scope, CUDA_VISIBLE_DEVICES=value), **{"cards": FOUR, **values})


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        # the guide's own examples
        ("2,1", [2, 1]),
        ("0,2,-1,1", [0, 2]),
        # torch/cuda/__init__.py, _parse_visible_devices: "1gpu2,2ampere" is 1 and 2; a number twice leaves none
        ("1gpu2,2ampere", [1, 2]),
        ("0,0", []),
        ("", []),
        ("-1", []),
        ("all", []),
        ("0, 1", [0, 1]),
        ("0,", [0]),
        ("+1", [1]),
        ("0,GPU-11aa", [0]),
        ("cuda:0", []),
    ],
)
def test_reading(value: str, shown: list[int]) -> None:
    assert list(read_devices(value).seen) == shown


def test_reading_agrees_with_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = pytest.importorskip("torch.cuda")
    for value in (
        "0,1",
        "1, 0",
        "0,0",
        "-1",
        "",
        "all",
        "2ampere,1",
        "0,-1,1",
        "0;1",
        "GPU-1,GPU-2",
        "0 1",
        "cuda:0",
        "0,,1",
    ):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        assert list(read_devices(value).seen) == cuda._parse_visible_devices(), value


@pytest.mark.parametrize("value", ["0,1,2,3", "3", "0, 1", "0,", "GPU-00aa,GPU-11aa-0", "0,1,-1"])
def test_what_is_right(value: str) -> None:
    assert value in clear(VisibleDevices, made(value))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("4", "no GPU 4"),
        ("0,7,1", "hides 1 with it"),
        ("1,1", "twice"),
        ("all", "neither an index nor a UUID"),
        ("cuda:0", "neither"),
        ("GPU 0", "neither"),
        ("[0,1]", "neither"),
        ('"0,1"', "neither"),
        ("-1", "hidden"),
        ("", "hidden"),
        ("0,-1,1", "ends the list"),
        ("0,,1", "ends the list"),
        ("0,GPU-11aa", "mixed"),
        ("GPU-00aa,1", "mixed"),
        ("GPU-99", "no card of this machine"),
        ("GPU-", "several cards"),
    ],
)
def test_mistakes(value: str, says: str) -> None:
    found = problem(VisibleDevices, made(value))
    assert found.severity is ERROR
    assert says in found.says


@pytest.mark.parametrize("value", ["0 1", "0;1", "0-3", "2ampere"])
def test_what_is_read_in_part(value: str) -> None:
    found = problem(VisibleDevices, made(value))
    assert found.severity is WARNING
    assert "leading number" in found.says


def test_the_line_to_paste() -> None:
    assert problem(VisibleDevices, made("0;1")).paste == "export CUDA_VISIBLE_DEVICES=0,1"
    assert problem(VisibleDevices, made("0,7,1")).paste == "export CUDA_VISIBLE_DEVICES=0,1"
    assert problem(VisibleDevices, made("all")).paste == "unset CUDA_VISIBLE_DEVICES"


def test_how_many_cards_there_are_is_not_always_known() -> None:
    # visible cards of a process are no list of all
    unindexed = tuple(replace(one, index=None) for one in FOUR[:2])
    assert clear(VisibleDevices, made("4,5", cards=unindexed))
    assert clear(VisibleDevices, made("4,5", cards=()))
    assert clear(VisibleDevices, made("4", cards=tuple(replace(one, mig=True) for one in FOUR)))


def test_hidden_on_purpose() -> None:
    command = Variable(
        "CUDA_VISIBLE_DEVICES",
        "",
        "script",
        Quote("run.sh", 2, "CUDA_VISIBLE_DEVICES= python"),
    )
    once = environment(variables=(replace(command, command=True),), cards=FOUR)
    assert problem(VisibleDevices, once).severity is NOTE
    assert problem(VisibleDevices, environment(variables=(command,), cards=FOUR)).severity is ERROR
    # without GPUs it is right
    assert problem(VisibleDevices, made("", cards=())).severity is NOTE
    assert problem(VisibleDevices, made("", cards=(), launches=(launch("sbatch", gpus=4),))).severity is ERROR


def test_a_value_of_another_variable() -> None:
    assert "another variable" in untold(VisibleDevices, made("$SLURM_LOCALID", scope="script"))
    assert "another variable" in untold(VisibleDevices, made(None, scope="script"))


def test_a_processs_own_counts_before_a_scripts() -> None:
    both = (*variables("script", CUDA_VISIBLE_DEVICES="9"), *variables(CUDA_VISIBLE_DEVICES="0"))
    assert clear(VisibleDevices, environment(variables=both, cards=FOUR))


def test_a_container_numbers_its_cards_again() -> None:
    def inside(outer: str, inner: str) -> Environment:
        return environment(variables=variables(NVIDIA_VISIBLE_DEVICES=outer, CUDA_VISIBLE_DEVICES=inner))

    assert "numbered from 0" in problem(VisibleDevices, inside("2,3", "2,3")).says
    assert clear(VisibleDevices, inside("2,3", "0,1"))
    for outer in ("all", "void", "none", ""):
        assert clear(VisibleDevices, inside(outer, "2,3"))


def test_mig_devices() -> None:
    card = replace(FOUR[0], mig=True, mig_devices=(MigDevice(uuid="MIG-a1"), MigDevice(uuid="MIG-b2")))
    assert clear(VisibleDevices, made("MIG-a1", cards=(card,)))
    assert "no card of this machine" in problem(VisibleDevices, made("MIG-c3", cards=(card,))).says
    # a process sees one of them
    found = problem(VisibleDevices, made("MIG-a1,MIG-b2", cards=(card,)))
    assert found.severity is WARNING
    ranks = (launch("torchrun", processes=2),)
    assert not_here(VisibleDevices, made("MIG-a1,MIG-b2", cards=(card,), launches=ranks))
    # the older form names a card and its parts
    assert clear(VisibleDevices, made("MIG-GPU-00aa-0/1/0", cards=(card,)))
    # where the devices' UUIDs are not told, nothing is held against them
    untold_ones = replace(card, mig_devices=(MigDevice("1g.10gb"),))
    assert clear(VisibleDevices, made("MIG-c3", cards=(untold_ones,)))


def test_a_local_rank_beyond_what_it_sees() -> None:
    def rank(visible: str, local: str) -> Environment:
        return environment(
            variables=tuple(
                Variable(name, value, "process", Quote("env", 1, name), rank=5)
                for name, value in (("CUDA_VISIBLE_DEVICES", visible), ("LOCAL_RANK", local))
            )
        )

    assert "cuda:2 does not exist" in problem(VisibleDevices, rank("4,5", "2")).says
    assert clear(VisibleDevices, rank("4,5", "1"))
    assert clear(VisibleDevices, rank("5", "5"))  # one card of its own


def test_cards_of_several_kinds() -> None:
    mixed = cards("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090")
    found = problem(VisibleDevices, environment("variables", cards=mixed))
    assert found.severity is NOTE
    assert found.paste == "export CUDA_DEVICE_ORDER=PCI_BUS_ID"
    assert not_here(VisibleDevices, environment(cards=mixed))  # nobody told the variables
    right = variables(CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert not_here(VisibleDevices, environment(cards=mixed, variables=right))


def test_the_certainty_of_an_index_beyond() -> None:
    assert problem(VisibleDevices, made("4")).certainty is Certainty.LIKELY
    assert problem(VisibleDevices, made("1,1")).certainty is Certainty.CERTAIN


def test_nothing_to_look_at() -> None:
    assert not_here(VisibleDevices, environment(cards=FOUR, drivers=(told("535.104.05"),)))
