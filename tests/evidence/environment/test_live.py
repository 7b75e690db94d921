"""This machine as an Environment: from a root folder with what a machine's has, and from the real one."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from oomph.evidence.environment import live_cards, live_python
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.live import this_environment
from oomph.evidence.environment.live_cards import by_nvml, with_processes
from oomph.evidence.environment.model import Card, CardProcess
from oomph.evidence.model import Quote
from oomph.probe.machine.details import CardDetails, MachineDetails, OnCard, Part
from oomph.probe.machine.nvml import Unavailable
from oomph.probe.surroundings import python as interpreters
from oomph.probe.surroundings.python import Installed
from oomph.probe.surroundings.seen import Untold
from tests.probe.surroundings.fake_root import made

GIB = 1 << 30
MACHINE = {
    "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 2023\n",
    "/proc/sys/kernel/hostname": "gpu07\n",
    "/proc/sys/kernel/osrelease": "5.15.0-1052-aws\n",
    "/etc/os-release": 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\n',
    "/sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
    "/sys/class/dmi/id/product_name": "p4d.24xlarge\n",
    "/proc/meminfo": f"MemTotal: {1152 * GIB // 1024} kB\nMemAvailable: 1024 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
    "/proc/self/limits": "Max locked memory         unlimited            unlimited            bytes     \n",
    "/sys/devices/system/cpu/online": "0-95\n",
    "/sys/class/net/ens32/type": "1\n",
    "/sys/class/net/ens32/operstate": "up\n",
    "/sys/class/infiniband/rdmap16s27/": "",
    "/dev/kmsg": "4,1,5000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.104.05\n",
    "/dev/shm/": "",
    "/usr/local/cuda/version.json": '{"cuda": {"version": "12.2.0"}}',
}


def test_a_whole_machine(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith(("NCCL", "CUDA", "KUBERNETES"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("HF_TOKEN", "hf_NeverTaken")
    found = this_environment(root=made(tmp_path, MACHINE))
    assert found.live
    for told, value in (
        (found.driver, "535.104.05"),
        (found.hostname, "gpu07"),
        (found.system, "Ubuntu 22.04.4 LTS, Linux 5.15.0-1052-aws"),
        (found.provider, "AWS"),
        (found.machine_type, "p4d.24xlarge"),
        (found.wsl, False),
        (found.host.ram_bytes, 1152 * GIB),
        (found.host.swap_bytes, 0),
        (found.host.memlock_bytes, -1),
        (found.host.vcpus, 96),
    ):
        assert told is not None
        assert told.value == value
        assert told.quote.line == 0
    assert found.container is None
    assert [one.value for one in found.toolkits] == ["12.2.0"]
    assert [(one.name, one.up) for one in found.interfaces] == [("ens32", True)]
    assert found.rdma_devices == ("rdmap16s27",)
    assert any("/dev/infiniband" in note for note in found.notes)
    variable = found.variable("NCCL_DEBUG")
    assert variable is not None
    assert (variable.value, variable.scope, variable.quote.source) == ("INFO", "process", "environment")
    assert "hf_NeverTaken" not in repr(found)
    assert "HF_TOKEN" not in repr(found)
    assert {"variables", "interfaces", "rdma_devices", "xids"} <= found.told
    assert set(found.missing) == {"cards"}
    assert "cards" not in found.told
    assert found.host.shm_bytes is not None


def test_nothing_at_all(tmp_path):
    """An empty root: everything is missing, each with a reason, and nothing is told that was not read."""
    found = this_environment(root=tmp_path)
    names = "cards drivers hostname system wsl provider machine_type interfaces rdma_devices xids"
    limits = "host.ram_bytes host.shm_bytes host.memlock_bytes host.vcpus"
    for name in (*names.split(), *limits.split()):
        assert found.missing[name]
        assert name not in found.told
    assert not found.tells("cards")
    assert not found.tells("rdma_devices")


def test_a_running_process(tmp_path):
    root = made(tmp_path, {
        "/proc/4711/environ": "CUDA_VISIBLE_DEVICES=0,1\0SECRET=x\0",
        "/proc/4711/limits": "Max locked memory         65536                65536                bytes     \n",
    })  # fmt: skip
    found = this_environment(root=root, pid=4711)
    assert [(one.name, one.quote.source) for one in found.variables] == [
        ("CUDA_VISIBLE_DEVICES", "/proc/4711/environ")
    ]
    assert found.host.memlock_bytes is not None
    assert found.host.memlock_bytes.value == 65536
    gone = this_environment(root=root, pid=4712)
    assert gone.missing["variables"] == "there is no process 4712 here"
    assert not gone.tells("variables")


class Server:
    def ask(self, method, path, headers):
        answers = {"/computeMetadata/v1/instance/machine-type": "projects/1/machineTypes/a2-ultragpu-8g"}
        return answers.get(path)


def test_the_cloud_is_asked_only_where_it_may_be(tmp_path):
    class Never:
        def ask(self, *_):
            raise AssertionError

    root = made(tmp_path, {"/sys/class/dmi/id/sys_vendor": "Google\n"})
    found = this_environment(root=root, server=Never())
    assert found.machine_type is None
    assert "--ask-cloud" in found.missing["machine_type"]
    found = this_environment(root=root, ask_cloud=True, server=Server())
    assert found.machine_type is not None
    assert (found.machine_type.value, found.provider and found.provider.value) == (
        "a2-ultragpu-8g",
        "Google Cloud",
    )
    # Where a file tells it, nobody is asked.
    known = made(tmp_path / "aws", MACHINE)
    assert this_environment(root=known, ask_cloud=True, server=Never()).machine_type is not None


class Nvml:
    def __init__(self, *cards):
        self.cards = cards

    def details(self):
        return MachineDetails("NVML", "550.54.14", "12.4", self.cards)


A100 = CardDetails(
    0,
    uuid="GPU-1",
    bus_id="00000000:3B:00.0",
    name="NVIDIA A100-SXM4-80GB",
    capability=(8, 0),
    total_bytes=80 * GIB,
    used_bytes=3 * GIB,
    reserved_bytes=GIB,
    mig=True,
    parts=(Part("3g.40gb", 40 * GIB, "MIG-1"),),
    ecc_uncorrected=2,
    compute_mode="Default",
    processes=(OnCard(4711, 2 * GIB, "python", "C"),),
)


def test_cards_by_nvml():
    found = Found()
    by_nvml(Nvml(A100, CardDetails(1, missing="this GPU does not answer: GPU is lost")), found)
    environment = found.environment()
    first, second = environment.cards
    assert (first.index, first.uuid, first.capability, first.total_bytes) == (0, "GPU-1", (8, 0), 80 * GIB)
    assert (first.reserved_bytes, first.ecc_uncorrected, first.compute_mode) == (GIB, 2, "Default")
    assert first.mig_devices[0].profile == "3g.40gb"
    assert first.processes is not None
    assert (first.processes[0].pid, first.processes[0].alive) == (4711, None)
    assert second.processes is None
    assert environment.driver is not None
    assert environment.driver_cuda is not None
    assert (environment.driver.value, environment.driver_cuda.value) == ("550.54.14", "12.4")
    assert [quote.text for quote in environment.errors] == ["GPU 1: this GPU does not answer: GPU is lost"]


def on_card(*pids):
    quote = Quote("NVML", 0, "")
    return Card(quote, 0, processes=tuple(CardProcess(pid, GIB, "python", "C", quote) for pid in pids))


def test_processes_alive_defunct_and_gone(tmp_path):
    root = made(tmp_path, {
        "/proc/10/stat": "10 (python train) S 1 10 10 0 -1\n",
        "/proc/10/cmdline": "/usr/bin/python\0train.py\0--secret\0",
        "/proc/11/stat": "11 (python) Z 10 10 10 0 -1\n",
    })  # fmt: skip
    (card,) = with_processes([on_card(10, 11, 12)], root, "", pid=10)
    assert card.processes is not None
    assert [(one.pid, one.alive, one.ours) for one in card.processes] == [
        (10, True, True),
        (11, False, True),
        (12, False, False),
    ]
    assert card.processes[0].name == "python train.py"
    assert card.hidden == ""


def test_in_a_container_nothing_is_concluded_from_numbers(tmp_path):
    root = made(tmp_path, {"/proc/10/stat": "10 (sh) S 1 10 10 0 -1\n"})
    (card,) = with_processes([on_card(10, 12)], root, "this is a container", pid=None)
    assert card.processes is not None
    assert [one.alive for one in card.processes] == [None, None]
    assert card.hidden == "this is a container"
    silent = Card(Quote("NVML", 0, ""), 0)
    assert with_processes([silent], root, "this is a container") == (silent,)


def mismatch(*_):
    raise Unavailable("NVML does not start: Driver/library version mismatch")


def test_a_driver_that_cannot_be_asked(monkeypatch, tmp_path):
    monkeypatch.setattr(live_cards, "NvmlDetails", mismatch)
    monkeypatch.setenv("PATH", str(tmp_path))
    found, missing = Found(), {}
    assert not live_cards.cards(found, missing)
    assert missing["cards"] == (
        "no GPU can be read: NVML does not start: Driver/library version mismatch, and there is no nvidia-smi on the "
        "path"
    )
    assert [quote.text for quote in found.errors] == ["NVML does not start: Driver/library version mismatch"]


def packages(monkeypatch, *, cards, **values):
    asked = []

    def architectures(python):
        asked.append(python)
        return ("sm_80", "compute_90")

    monkeypatch.setattr(interpreters, "installed", lambda _: Installed("/venv/bin/python", **values))
    monkeypatch.setattr(interpreters, "architectures", architectures)
    found, missing = Found(), {}
    live_python.python_packages(found, missing, None, cards)
    return found.environment(), missing, asked


def test_the_installed_pytorch(monkeypatch):
    told, missing, asked = packages(
        monkeypatch,
        cards=True,
        packages={"torch": "2.3.1+cu121", "nvidia-nccl-cu12": "2.21.5"},
        pins={"nvidia-nccl-cu12": "2.20.5"},
        torch="2.3.1+cu121",
        cuda="12.1",
        hip=None,
        torch_file="/venv/torch/version.py",
    )
    (build,) = told.torch
    assert (build.version, build.local, build.cuda, build.hip) == ("2.3.1", "cu121", "12.1", "")
    assert (build.architectures, len(asked)) == (("sm_80", "compute_90"), 1)
    assert told.pins["nvidia-nccl-cu12"].value == "2.20.5"
    assert told.packages["nvidia-nccl-cu12"][0].value == "2.21.5"
    assert missing == {}


@pytest.mark.parametrize(("cards", "cuda"), [(False, "12.1"), (True, None)])
def test_pytorch_is_not_imported_without_cards_or_cuda(monkeypatch, cards, cuda):
    told, _, asked = packages(monkeypatch, cards=cards, torch="2.3.1", cuda=cuda)
    assert asked == []
    assert (told.torch[0].cuda, told.torch[0].architectures) == (cuda, ())


def test_another_environment_that_is_active(tmp_path):
    """oomph may live in an environment of its own: its PyTorch is not the job's."""
    program = made(tmp_path, {"/venv/bin/python": ""}) / "venv" / "bin" / "python"
    assert live_python.other_environment({"VIRTUAL_ENV": str(tmp_path / "venv")}) == str(program)
    assert live_python.other_environment({"CONDA_PREFIX": str(tmp_path / "venv")}) == str(program)
    assert live_python.other_environment({"VIRTUAL_ENV": sys.prefix}) == ""
    # The inner one is active.
    assert (
        live_python.other_environment({"VIRTUAL_ENV": sys.prefix, "CONDA_PREFIX": str(tmp_path / "venv")})
        == ""
    )
    assert live_python.other_environment({"VIRTUAL_ENV": str(tmp_path / "gone")}) == ""
    found = Found()
    live_python.python_packages(
        found, {}, None, cards=False, variables={"VIRTUAL_ENV": str(tmp_path / "venv")}
    )
    assert f"--python {program}" in found.notes[0]
    found = Found()
    live_python.python_packages(
        found, {}, sys.executable, cards=False, variables={"VIRTUAL_ENV": str(tmp_path / "venv")}
    )
    assert found.notes == []


def test_no_pytorch(monkeypatch):
    told, missing, _ = packages(monkeypatch, cards=True)
    assert told.torch == ()
    assert missing == {
        "torch": "PyTorch is not installed for /venv/bin/python; --python PATH asks another interpreter"
    }
    monkeypatch.setattr(interpreters, "installed", lambda _: Untold("x cannot be started: no such file"))
    missing = {}
    live_python.python_packages(Found(), missing, "x", cards=True)
    assert missing["torch"] == "x cannot be started: no such file"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_this_machine():
    found = this_environment()
    assert found.live
    assert found.hostname is not None
    assert found.hostname.value == platform.node()
    assert found.host.ram_bytes is not None
    kib = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    assert found.host.ram_bytes.value == int(kib.split()[1]) * 1024
    assert found.tells("interfaces")
    assert found.tells("cards") or found.missing["cards"]


#: As `nvidia-smi -q` of driver 535 prints one card, shortened.
QUERY = """
==============NVSMI LOG==============

Timestamp                                 : Tue Oct 10 10:00:00 2023
Driver Version                            : 535.104.05
CUDA Version                              : 12.2

Attached GPUs                             : 1
GPU 00000000:3B:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    Persistence Mode                      : Disabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    GPU UUID                              : GPU-8932f937-d72c-4106-c12f-20bd9faed9f6
    FB Memory Usage
        Total                             : 81920 MiB
        Reserved                          : 618 MiB
        Used                              : 12034 MiB
        Free                              : 69267 MiB
    Compute Mode                          : Default
    Processes
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 4711
            Type                          : C
            Name                          : python
            Used GPU Memory               : 12028 MiB
"""


class Smi:
    text = QUERY
    why = ""

    def capabilities(self):
        return {"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6": (8, 0)}


def test_cards_by_nvidia_smi(monkeypatch):
    monkeypatch.setattr(live_cards, "NvmlDetails", mismatch)
    monkeypatch.setattr(live_cards, "SmiText", Smi)
    found, missing = Found(), {}
    assert live_cards.cards(found, missing)
    environment = found.environment()
    (card,) = environment.cards
    assert (card.name, card.capability, card.persistence, card.mig) == (
        "NVIDIA A100-SXM4-80GB",
        (8, 0),
        False,
        False,
    )
    assert (card.total_bytes, card.used_bytes) == (81920 << 20, 12034 << 20)
    assert card.processes is not None
    assert [(one.pid, one.used_bytes) for one in card.processes] == [(4711, 12028 << 20)]
    assert environment.driver is not None
    assert (environment.driver.value, environment.driver.quote.line) == ("535.104.05", 0)
    assert missing == {}


def test_xids_of_the_kernels_log(tmp_path):
    line = (
        "4,512,5000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus.\n"
    )
    old = "4,513,6000000,-;NVRM: API mismatch: the client has the version 535.161.08, but\n"
    found = this_environment(root=made(tmp_path, {"/dev/kmsg": line + old}))
    (xid,) = found.xids
    assert (xid.number, xid.pid, xid.quote.line) == (79, 4711, 0)
    assert found.tells("xids")
    quiet = this_environment(root=made(tmp_path, {"/dev/kmsg": "6,1,1,-;usb\n"}))
    assert quiet.tells("xids")
    assert quiet.xids == ()
