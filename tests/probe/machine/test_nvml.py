from __future__ import annotations

import os
import sys

import pytest

from oomph.probe.machine import NvmlMachine
from oomph.probe.machine.nvml import Unavailable

pynvml = pytest.importorskip("pynvml")

from tests.probe.machine.fake_nvml import MIB, Card, FakeNvml, process  # noqa: E402 - needs pynvml

A100 = ("NVIDIA A100-SXM4-80GB", 81920 * MIB)


def a100(number, used, **more):
    return Card(f"GPU-{number:08x}-1111-2222-3333-444444444444", A100[0], A100[1], used, **more)


def test_a_card_with_our_process_and_a_stranger():
    stranger = os.getppid()
    nvml = FakeNvml(
        a100(0, 12000 * MIB, reserved=600 * MIB, utilization=93, compute=[process(os.getpid(), 11000 * MIB)]),
        a100(1, 900 * MIB, compute=[process(stranger, 500 * MIB)], graphics=[process(stranger, 500 * MIB)]),
    )
    machine = NvmlMachine(nvml)
    first, second = machine.gpus((os.getpid(),))
    assert (first.index, first.uuid, first.name) == (0, "GPU-00000000-1111-2222-3333-444444444444", A100[0])
    assert (first.capacity_bytes, first.used_bytes, first.utilization) == (A100[1], 12000 * MIB, 93)
    # What the driver keeps for itself is neither used nor free.
    assert first.free_bytes == A100[1] - 12000 * MIB - 600 * MIB
    (own,) = first.processes
    assert (own.pid, own.used_bytes, own.ours) == (os.getpid(), 11000 * MIB, True)
    assert own.name.startswith("python")
    # Computing and drawing is one process, once.
    (other,) = second.processes
    assert (other.pid, other.used_bytes, other.ours) == (stranger, 500 * MIB, False)
    assert (first.missing, second.missing) == ("", "")
    assert (machine.source(), machine.why()) == ("nvml", "")


def test_a_child_of_the_job_belongs_to_it():
    nvml = FakeNvml(a100(0, 100 * MIB, compute=[process(os.getpid(), 100 * MIB)]))
    (gpu,) = NvmlMachine(nvml).gpus((os.getppid(),))
    assert gpu.processes[0].ours
    (gpu,) = NvmlMachine(nvml).gpus()
    assert not gpu.processes[0].ours


def test_an_old_driver_tells_memory_in_version_1():
    (gpu,) = NvmlMachine(FakeNvml(a100(0, 1000 * MIB, reserved=600 * MIB), version_2=False)).gpus()
    assert gpu.used_bytes == 1600 * MIB
    assert gpu.free_bytes == A100[1] - 1600 * MIB


def test_a_lost_card_does_not_hide_the_others():
    lost = a100(0, 0, lost=True)
    first, second = NvmlMachine(FakeNvml(lost, a100(1, 5 * MIB))).gpus()
    assert (first.index, first.capacity_bytes) == (0, None)
    assert first.missing == "this GPU does not answer: GPU is lost"
    assert second.used_bytes == 5 * MIB


def test_what_is_not_supported_is_not_known():
    refused = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    shared = Card(
        "GPU-1", "NVIDIA GB10", 0, 0, memory=refused, utilization=None, compute=refused, graphics=refused
    )
    (gpu,) = NvmlMachine(FakeNvml(shared)).gpus()
    assert (gpu.capacity_bytes, gpu.used_bytes, gpu.free_bytes, gpu.utilization) == (None, None, None, None)
    assert gpu.missing == (
        "the driver does not tell this GPU's memory; the driver does not list this GPU's processes"
    )


def test_mig_devices_stand_for_the_card():
    parts = [
        Card("MIG-aaaa", "NVIDIA A100-SXM4-80GB MIG 3g.40gb", 40192 * MIB, 37 * MIB),
        Card("MIG-bbbb", "NVIDIA A100-SXM4-80GB MIG 4g.40gb", 40192 * MIB, 900 * MIB),
    ]
    parts[1].compute = [process(os.getpid(), 800 * MIB)]
    found = NvmlMachine(FakeNvml(a100(0, 0, mig=1, parts=parts), a100(1, 0, mig=0))).gpus((os.getpid(),))
    assert [(one.index, one.uuid) for one in found][:2] == [(0, "MIG-aaaa"), (0, "MIG-bbbb")]
    assert found[1].name.endswith("MIG 4g.40gb")
    assert found[1].capacity_bytes == 40192 * MIB
    assert found[1].processes[0].ours
    assert found[2].index == 1
    # Cut, and no part made yet: the card is there.
    (card,) = NvmlMachine(FakeNvml(a100(0, 0, mig=1))).gpus()
    assert card.uuid.startswith("GPU-")


def test_a_container_that_shows_no_processes():
    (gpu,) = NvmlMachine(FakeNvml(a100(0, 40000 * MIB))).gpus((os.getpid(),))
    assert gpu.processes == ()
    assert "names no process" in gpu.missing
    (idle,) = NvmlMachine(FakeNvml(a100(0, 4 * MIB))).gpus()
    assert idle.missing == ""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_container_that_shows_the_hosts_numbers():
    nvml = FakeNvml(a100(0, 40000 * MIB, compute=[process(4_000_000_000, 39000 * MIB)]))
    nvml.names[4_000_000_000] = b"/usr/bin/python3.11"
    (gpu,) = NvmlMachine(nvml).gpus((os.getpid(),))
    (one,) = gpu.processes
    assert (one.name, one.used_bytes, one.ours) == ("python3.11", 39000 * MIB, False)
    assert "cannot be seen from here" in gpu.missing


def test_a_driver_that_does_not_tell_the_bytes():
    (gpu,) = NvmlMachine(FakeNvml(a100(0, 4000 * MIB, compute=[process(os.getpid(), None)]))).gpus()
    assert gpu.processes[0].used_bytes is None
    assert "bytes of each process" in gpu.missing


def test_one_card_alone():
    machine = NvmlMachine(FakeNvml(a100(0, 1), a100(1, 7 * MIB), a100(2, 0, mig=1, parts=[a100(3, 0)])))
    gpu = machine.gpu("GPU-00000001-1111-2222-3333-444444444444")
    assert gpu is not None
    assert (gpu.index, gpu.used_bytes) == (1, 7 * MIB)
    assert machine.gpu("GPU-00000002-1111-2222-3333-444444444444") is None
    assert machine.gpu("GPU-9") is None


def test_shares_of_this_process(monkeypatch):
    from oomph.probe import shares

    own = process(os.getpid(), 900 * MIB)
    nvml = FakeNvml(a100(0, 0), a100(1, 1000 * MIB, compute=[own, process(os.getppid(), 50 * MIB)]))
    monkeypatch.setattr(shares, "_nvml", lambda: NvmlMachine(nvml))
    found = shares.shares("00000001-1111-2222-3333-444444444444", 0, 600 * MIB)
    assert (found.outside_bytes, found.others_bytes, found.why) == (300 * MIB, 50 * MIB, "")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert shares.shares("", 1, 600 * MIB).outside_bytes == 300 * MIB
    assert (shares.name(1), shares.name(2)) == (A100[0], "")


def test_no_driver():
    broken = FakeNvml(start=pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED))
    with pytest.raises(Unavailable, match="Driver Not Loaded"):
        NvmlMachine(broken)


def test_it_ends():
    nvml = FakeNvml()
    machine = NvmlMachine(nvml)
    assert nvml.running
    assert machine.gpus() == ()
    machine.close()
    assert not nvml.running
