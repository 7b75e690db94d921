"""NCCL, src/init.cc: two ranks of one host with the same bus id are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oomph.diagnose.machine.checks.env208_two_ranks_on_one_gpu import TwoRanksOnOneGpu
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import CardProcess, RankDevice, Variable
from oomph.evidence.model import Quote
from tests.diagnose.machine.built import (
    ERROR,
    QUOTE,
    WARNING,
    cards,
    clear,
    environment,
    launch,
    not_here,
    problem,
)


def ranks(*values: dict[str, Any]) -> Any:
    return environment(rank_devices=tuple(RankDevice(quote=QUOTE, **one) for one in values))


def dump(*those: dict[str, str]) -> tuple[Variable, ...]:
    return tuple(
        Variable(name, value, "process", Quote(f"env.{rank}", line, f"{name}={value}"), rank=rank)
        for rank, values in enumerate(those)
        for line, (name, value) in enumerate(values.items(), 1)
    )


def test_nccls_message() -> None:
    text = "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 4000"
    found = problem(TwoRanksOnOneGpu, environment(errors=(Quote("log", 3, text), Quote("log", 4, text))))
    assert (found.severity, found.certainty) == (ERROR, Certainty.CERTAIN)
    assert "ranks 0 and 1" in found.says


def test_the_same_uuid() -> None:
    same = ranks({"rank": 0, "uuid": "GPU-aa"}, {"rank": 1, "uuid": "GPU-aa"})
    assert problem(TwoRanksOnOneGpu, same).certainty is Certainty.CERTAIN
    assert "2 ranks" in clear(
        TwoRanksOnOneGpu, ranks({"rank": 0, "uuid": "GPU-aa"}, {"rank": 1, "uuid": "GPU-bb"})
    )


def test_one_rank_that_prints_twice() -> None:
    assert not_here(TwoRanksOnOneGpu, ranks({"rank": 0, "uuid": "GPU-aa"}, {"rank": 0, "uuid": "GPU-aa"}))


def test_a_bus_id_is_one_of_its_host() -> None:
    bus = "0000:17:00.0"
    two_hosts = ranks({"rank": 0, "bus_id": bus, "host": "a"}, {"rank": 8, "bus_id": bus, "host": "b"})
    assert clear(TwoRanksOnOneGpu, two_hosts)
    # without hosts: local rank 0 twice is two hosts, 0 and 1 is one
    unsaid = ranks({"rank": 0, "bus_id": bus, "local_rank": 0}, {"rank": 8, "bus_id": bus, "local_rank": 0})
    assert clear(TwoRanksOnOneGpu, unsaid)
    found = problem(
        TwoRanksOnOneGpu,
        ranks({"rank": 0, "bus_id": bus, "local_rank": 0}, {"rank": 1, "bus_id": bus, "local_rank": 1}),
    )
    assert found.certainty is Certainty.CERTAIN


def test_cuda_0_of_every_rank() -> None:
    made = ranks({"rank": 0, "local_rank": 0, "device": 0}, {"rank": 1, "local_rank": 1, "device": 0})
    assert problem(TwoRanksOnOneGpu, made).certainty is Certainty.POSSIBLE
    # torchrun gives every rank all cards
    torchrun = replace(made, launches=(launch("torchrun", processes=2),))
    assert problem(TwoRanksOnOneGpu, torchrun).certainty is Certainty.LIKELY
    # unless each was given its own
    own = replace(made, variables=dump({"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}))
    assert clear(TwoRanksOnOneGpu, own)
    assert clear(TwoRanksOnOneGpu, ranks({"rank": 0, "device": 0}, {"rank": 1, "device": 1}))


def test_environments_of_ranks() -> None:
    same = dump(
        {"CUDA_VISIBLE_DEVICES": "0", "LOCAL_RANK": "0"}, {"CUDA_VISIBLE_DEVICES": "0", "LOCAL_RANK": "1"}
    )
    found = problem(TwoRanksOnOneGpu, environment(variables=same))
    assert (found.severity, found.certainty) == (ERROR, Certainty.LIKELY)
    usual = dump(
        {"CUDA_VISIBLE_DEVICES": "0,1", "LOCAL_RANK": "0"}, {"CUDA_VISIBLE_DEVICES": "0,1", "LOCAL_RANK": "1"}
    )
    assert clear(TwoRanksOnOneGpu, environment(variables=usual))
    crossed = dump(
        {"CUDA_VISIBLE_DEVICES": "0,1", "LOCAL_RANK": "0"}, {"CUDA_VISIBLE_DEVICES": "1,0", "LOCAL_RANK": "1"}
    )
    problem(TwoRanksOnOneGpu, environment(variables=crossed))


def test_environments_of_two_hosts() -> None:
    first = {"CUDA_VISIBLE_DEVICES": "0", "LOCAL_RANK": "0"}
    hosts = dump({**first, "HOSTNAME": "a"}, {**first, "HOSTNAME": "b"})
    assert clear(TwoRanksOnOneGpu, environment(variables=hosts))
    problem(
        TwoRanksOnOneGpu, environment(variables=dump({**first, "HOSTNAME": "a"}, {**first, "HOSTNAME": "a"}))
    )
    # the host is not told, and the local ranks are equal: two hosts, or one; nothing is concluded
    assert clear(TwoRanksOnOneGpu, environment(variables=dump(first, first)))


def test_processes_on_a_card_are_a_hint() -> None:
    (one, two) = cards("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB")

    def python(pid: int) -> CardProcess:
        return CardProcess(pid, 1 << 30, "python", "C", QUOTE)

    both = environment(cards=(replace(one, processes=(python(1), python(2))),))
    assert not_here(TwoRanksOnOneGpu, both)  # two jobs of somebody, as far as is known
    launched = replace(both, launches=(launch("torchrun", processes=2),))
    found = problem(TwoRanksOnOneGpu, launched)
    assert (found.severity, found.certainty) == (WARNING, Certainty.POSSIBLE)
    # a rank with a second context on GPU 0
    strayed = environment(
        cards=(replace(one, processes=(python(1), python(2))), replace(two, processes=(python(2),)))
    )
    assert "another card as well" in problem(TwoRanksOnOneGpu, strayed).says
    # ids next to each other, and another card that is idle
    idle = environment(
        cards=(replace(one, processes=(python(5011), python(5012))), replace(two, processes=()))
    )
    assert problem(TwoRanksOnOneGpu, idle).certainty is Certainty.POSSIBLE
    apart = environment(
        cards=(replace(one, processes=(python(5011), python(9012))), replace(two, processes=()))
    )
    assert not_here(TwoRanksOnOneGpu, apart)
    # one process that is listed twice is one
    twice = environment(
        cards=(replace(one, processes=(python(1), python(1))),),
        launches=(launch("torchrun", processes=2),),
    )
    assert not_here(TwoRanksOnOneGpu, twice)


def test_nothing_to_look_at() -> None:
    assert not_here(TwoRanksOnOneGpu, environment())
