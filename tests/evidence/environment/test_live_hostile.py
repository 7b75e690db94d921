"""Files of /proc and /sys that hold anything: no reader raises, and nothing is told that is not there."""

from __future__ import annotations

import random

import pytest

from oomph.diagnose.machine.engine import check_up
from oomph.diagnose.machine.model import Asked
from oomph.evidence.environment.live import this_environment
from oomph.report.doctor.json import render_json
from oomph.report.options import ReportOptions
from tests.evidence.environment.test_live import MACHINE

NAMES = [*(name for name in MACHINE if not name.endswith("/")), "/proc/self/cgroup", "/proc/1/cgroup", "/proc/mounts",
         "/proc/net/if_inet6", "/proc/version", "/proc/9/environ", "/run/cloud-init/instance-data.json",
         "/usr/local/cuda/version.txt"]  # fmt: skip


def some_bytes(dice: random.Random, text: str) -> bytes:
    data = bytearray(text.encode())
    kind = dice.randrange(4)
    if kind == 0:
        return dice.randbytes(dice.randrange(300))
    if kind == 1:
        return bytes(data[: dice.randrange(len(data) + 1)])
    if kind == 2:
        return bytes(data) * dice.randrange(50) + b"9" * dice.randrange(5000)
    for _ in range(dice.randrange(1, 9)):
        if data:
            data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


@pytest.mark.parametrize("seed", range(25))
def test_anything_in_the_files(tmp_path, seed):
    dice = random.Random(seed)
    for name in NAMES:
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if dice.random() < 0.9:
            path.write_bytes(some_bytes(dice, MACHINE.get(name, "0::/kubepods/x\n1 2 3 4 5 6\n")))
    found = this_environment(root=tmp_path, pid=9)
    assert found.live
    assert all(found.missing.values())
    checkup = check_up(Asked(found), ignore=["ENV5"])
    render_json(checkup, ReportOptions())


def test_folders_and_loops_in_place_of_files(tmp_path):
    for name in NAMES:
        (tmp_path / name.lstrip("/")).mkdir(parents=True, exist_ok=True)
    (tmp_path / "sys" / "class" / "infiniband").symlink_to("infiniband")
    found = this_environment(root=tmp_path, pid=9)
    assert found.drivers == ()
    assert found.missing["variables"]
