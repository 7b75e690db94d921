"""MIG user guide: a process sees one MIG device; NCCL's check of duplicates compares bus ids (src/init.cc)."""

from __future__ import annotations

from dataclasses import replace

from oomph.diagnose.machine.checks.env202_mig import Mig
from oomph.evidence.environment.model import Environment, MigDevice
from oomph.job.model import Hardware, Job
from oomph.units import GIB
from tests.diagnose.machine.built import (
    ERROR,
    WARNING,
    cards,
    clear,
    environment,
    launch,
    not_here,
    problem,
    untold,
)

(A100,) = cards("NVIDIA A100-SXM4-40GB")
SLICES = (MigDevice("3g.20gb", int(19.5 * GIB)), MigDevice("3g.20gb", int(19.5 * GIB)))
BARE = replace(A100, mig=True)
CUT = replace(BARE, mig_devices=SLICES)


def listed(kind: str, *those: object) -> Environment:
    return Environment(cards=those, sources=((A100.quote.source, kind),))  # type: ignore[arg-type]


def test_on_without_instances() -> None:
    found = problem(Mig, listed("nvidia-smi -q", BARE))
    assert found.severity is ERROR
    assert "no device" in found.does
    other = replace(A100, index=1, mig=False)
    assert "1 other card" in problem(Mig, listed("nvidia-smi -q", BARE, other)).does


def test_a_query_does_not_list_instances() -> None:
    assert "nvidia-smi -L" in untold(Mig, listed("nvidia-smi csv", BARE))


def test_instances_for_one_process() -> None:
    says = clear(Mig, environment(cards=(CUT,)))
    assert "2 x 3g.20gb (19.50 GiB)" in says


def test_several_processes_over_instances() -> None:
    made = environment(cards=(CUT,), launches=(launch("torchrun", processes=2),))
    found = problem(Mig, made)
    assert found.severity is WARNING
    assert "Duplicate GPU" in found.does
    # two whole cards beside it are enough for two
    whole = tuple(replace(A100, index=index, mig=False) for index in (1, 2))
    assert clear(Mig, environment(cards=(CUT, *whole), launches=(launch("torchrun", processes=2),)))


def test_a_job_for_the_whole_card() -> None:
    made = environment(cards=(CUT,))
    found = problem(Mig, made, job=Job(hardware=Hardware(gpu="a100-40gb")))
    assert "19.50 GiB" in found.says
    assert clear(Mig, made, job=Job(hardware=Hardware(capacity_bytes=20 * GIB)))
    assert clear(Mig, made, job=Job())


def test_off_or_not_told() -> None:
    assert clear(Mig, environment(cards=(replace(A100, mig=False),)))
    assert not_here(Mig, environment(cards=(A100,)))
    assert not_here(Mig, environment())
