"""64 MiB: what Docker and Kubernetes give. 9,637,888 bytes: NCCL's own message in public logs."""

from __future__ import annotations

import pytest

from oomph.diagnose.machine.checks.env502_shm import ShmTooSmall
from oomph.evidence.environment.model import Launch
from oomph.evidence.model import Quote
from oomph.units import GIB, MIB
from tests.diagnose.machine.built import (
    ERROR,
    NOTE,
    WARNING,
    cards,
    clear,
    environment,
    host,
    launch,
    not_here,
    problem,
    told,
    untold,
    variables,
)

DOCKER = launch("docker run", host_ipc=False, gpus=2)


def test_dockers_default() -> None:
    found = problem(ShmTooSmall, environment(launches=(DOCKER,)))
    assert found.severity is WARNING
    assert found.numbers == {"shm_bytes": 64 * MIB}
    assert "--shm-size" in found.paste


def test_a_pod_with_one_gpu_can_be_anything() -> None:
    pod = launch("Kubernetes", gpus=1, host_ipc=False)
    assert problem(ShmTooSmall, environment(launches=(pod,))).severity is NOTE
    trains = environment(launches=(pod, launch("torchrun", processes=1)))
    assert problem(ShmTooSmall, trains).severity is WARNING


def test_a_pod_without_a_volume_in_memory() -> None:
    found = problem(ShmTooSmall, environment(launches=(launch("Kubernetes", gpus=8, host_ipc=False),)))
    assert "medium: Memory" in found.paste


@pytest.mark.parametrize(
    "one",
    [
        launch("docker run", gpus=8, shm_bytes=16 * GIB, host_ipc=False),
        launch("docker run", gpus=8, host_ipc=True),
        launch("Kubernetes", gpus=1, shm_bytes=-1, host_ipc=False),
        launch("docker compose", gpus=1, shm_bytes=GIB, host_ipc=False),
    ],
)
def test_enough(one: Launch) -> None:
    clear(ShmTooSmall, environment(launches=(one,)))


def test_both_sides_of_one_gib() -> None:
    assert problem(ShmTooSmall, environment(host=host(shm_bytes=GIB - 1))).severity is WARNING
    clear(ShmTooSmall, environment(host=host(shm_bytes=GIB)))


def test_nccl_through_host_memory() -> None:
    """2 x 4 x 9,637,888 = 77,103,104 bytes > 64 MiB = 67,108,864; for two ranks 38,551,552 are fewer."""
    four = environment(host=host(shm_bytes=64 * MIB), cards=cards(*["NVIDIA GeForce RTX 4090"] * 4))
    found = problem(ShmTooSmall, four)
    assert found.severity is ERROR
    assert found.numbers["nccl_bytes"] == 77_103_104
    two = environment(host=host(shm_bytes=64 * MIB), cards=cards(*["NVIDIA GeForce RTX 4090"] * 2))
    assert problem(ShmTooSmall, two).severity is WARNING
    forbidden = environment(
        host=host(shm_bytes=64 * MIB),
        cards=cards(*["NVIDIA A100-SXM4-40GB"] * 8),
        variables=variables(NCCL_P2P_DISABLE="1"),
    )
    assert problem(ShmTooSmall, forbidden).severity is ERROR
    direct = environment(host=host(shm_bytes=64 * MIB), cards=cards(*["NVIDIA A100-SXM4-40GB"] * 8))
    assert problem(ShmTooSmall, direct).severity is WARNING


def test_a_full_one() -> None:
    made = environment(host=host(shm_bytes=32 * GIB, shm_free_bytes=MIB))
    assert "free" in problem(ShmTooSmall, made).says


def test_nothing_told() -> None:
    assert not_here(ShmTooSmall, environment(launches=(launch("torchrun", processes=8),)))
    untold(ShmTooSmall, environment(container=told("docker")))
    assert not_here(ShmTooSmall, environment(launches=(launch("docker run"),)))
    for program in ("Kubernetes", "docker compose", "docker run"):
        assert not_here(ShmTooSmall, environment(launches=(launch(program, host_ipc=False),)))
    plain = launch("docker run", host_ipc=False)
    problem(ShmTooSmall, environment(launches=(plain, launch("torchrun", processes=2))))
    problem(ShmTooSmall, environment(launches=(plain,), images=(told("pytorch/pytorch:2.4.0"),)))


def test_a_look_at_the_cards_is_no_job() -> None:
    look = Launch(
        Quote("README", 1, "docker run --gpus all ubuntu nvidia-smi"), program="docker run", host_ipc=False
    )
    assert not_here(ShmTooSmall, environment(launches=(look,)))
