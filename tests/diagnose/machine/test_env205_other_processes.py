"""Lists of processes as nvidia-smi prints them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oomph.diagnose.machine.checks.env205_other_processes import OtherProcesses
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Card, CardProcess, Environment
from oomph.evidence.model import Quote
from oomph.units import GIB, MIB
from tests.diagnose.machine.built import (
    NOTE,
    WARNING,
    cards,
    clear,
    environment,
    not_here,
    problem,
    problems,
    told,
    untold,
)


def process(pid: int, name: str, used: int | None, kind: str = "C", **values: Any) -> CardProcess:
    return CardProcess(pid, used, name, kind, Quote("smi", pid, f"{pid} {name}"), **values)


def card(*those: CardProcess, index: int = 0, **values: Any) -> Card:
    (one,) = cards("NVIDIA A100-SXM4-80GB")
    return replace(one, index=index, processes=those, **values)


def of(*those: Card, **values: Any) -> Environment:
    return environment(cards=those, **values)


def test_somebody_is_there() -> None:
    found = problem(OtherProcesses, of(card(process(7, "/usr/bin/ollama", 30 * GIB))))
    assert found.severity is WARNING
    assert "ollama (pid 7, 30.00 GiB)" in found.says
    assert found.numbers["other_processes_bytes"] == 30 * GIB
    assert found.certainty is Certainty.LIKELY


def test_a_pasted_python_may_be_the_job_itself() -> None:
    found = problem(OtherProcesses, of(card(process(7, "python3.10", 30 * GIB))))
    assert found.certainty is Certainty.POSSIBLE
    assert "the job itself" in found.says
    live = problem(OtherProcesses, of(card(process(7, "python", 30 * GIB)), live=True))
    assert live.certainty is Certainty.CERTAIN


def test_the_jobs_own_are_no_neighbours() -> None:
    assert "GPU 0" in clear(OtherProcesses, of(card(process(7, "python", 30 * GIB, ours=True)), live=True))


def test_ranks_of_one_job() -> None:
    ranks = [card(process(pid, "python", 60 * GIB), index=pid) for pid in range(4)]
    assert "one job's ranks" in untold(OtherProcesses, of(*ranks))
    # not with a stranger among them
    ranks.append(card(process(9, "VLLM::EngineCore", 60 * GIB), index=4))
    problem(OtherProcesses, of(*ranks))
    # and not on the live machine, where the job's own are known
    problem(OtherProcesses, of(*ranks[:4], live=True))


def test_a_desktop() -> None:
    def drawn(used: int) -> Environment:
        return of(
            card(
                process(1, "/usr/lib/xorg/Xorg", used, "G"), process(2, "/usr/bin/gnome-shell", 12 * MIB, "G")
            )
        )

    assert problem(OtherProcesses, drawn(300 * MIB)).severity is NOTE
    assert problem(OtherProcesses, drawn(500 * MIB)).severity is NOTE  # 512 MiB together
    assert problem(OtherProcesses, drawn(501 * MIB)).severity is WARNING


def test_a_desktop_and_a_computing_process() -> None:
    made = of(card(process(1, "Xorg", 100 * MIB, "G"), process(2, "/opt/blender", 4 * GIB, "C+G")))
    found = problems(OtherProcesses, made)
    assert [one.severity for one in found] == [WARNING, NOTE]


def test_windows_does_not_tell_sizes() -> None:
    listed = card(process(1, r"C:\Windows\explorer.exe", None, "C+G"), process(2, "dwm.exe", None, "C+G"))
    assert problem(OtherProcesses, of(listed, system=told("Windows 11"))).severity is NOTE


def test_one_process_listed_twice() -> None:
    made = of(card(process(7, "ollama", 4 * GIB, "C"), process(7, "ollama", 4 * GIB, "G")))
    assert problem(OtherProcesses, made).numbers["other_processes_bytes"] == 4 * GIB


def test_dead_ones_and_the_mps_server_are_not_counted() -> None:
    made = of(
        card(
            process(7, "python", 4 * GIB, alive=False), process(8, "nvidia-cuda-mps-server", 30 * MIB, "M+C")
        )
    )
    assert clear(OtherProcesses, made)


def test_an_empty_list() -> None:
    assert clear(OtherProcesses, of(card()))
    assert "container" in untold(OtherProcesses, of(card(hidden="in a container")))
    assert "container" in untold(OtherProcesses, of(card(), container=told("docker")))
    assert "nvidia-smi lists them" in untold(OtherProcesses, of(*cards("NVIDIA A10")))
    assert not_here(OtherProcesses, environment())
