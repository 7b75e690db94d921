"""`SmiMachine` against an executable that answers as nvidia-smi documents it (nvidia-smi --help-query-gpu,
--help-query-compute-apps; man nvidia-smi): comma and blank between cells, no header, no units."""

from __future__ import annotations

import os
import sys
import textwrap

import pytest

from oomph.probe.machine import NoMachine, SmiMachine, choose, machine
from oomph.probe.machine.nvml import Unavailable

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs executable scripts")
MIB = 1 << 20
A100 = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
OTHER = "GPU-f9a3c2d1-0000-1111-2222-333344445555"
GPUS = f"""\
0, {A100}, 81920, 12034, 69237, 97, NVIDIA A100-SXM4-80GB
1, {OTHER}, 81920, 0, 81271, [N/A], NVIDIA A100-SXM4-80GB
"""


@pytest.fixture
def smi(tmp_path):
    """Makes an executable `nvidia-smi` whose answers these are; what it was asked is in `asked`."""

    def make(gpus=GPUS, apps="", body=""):
        program = tmp_path / "nvidia-smi"
        (tmp_path / "gpus").write_text(gpus)
        (tmp_path / "apps").write_text(apps)
        program.write_text(
            f"#!{sys.executable}\n"
            + textwrap.dedent(f"""\
            import sys
            from pathlib import Path
            folder = Path({str(tmp_path)!r})
            with (folder / "asked").open("a") as stream:
                stream.write(" ".join(sys.argv[1:]) + chr(10))
            """)
            + textwrap.dedent(body)
            + textwrap.dedent("""\
            which = "gpus" if "--query-gpu" in sys.argv[1] else "apps"
            sys.stdout.buffer.write((folder / which).read_bytes())
            """)
        )
        program.chmod(0o755)
        return str(program)

    return make


def test_cards_and_processes(smi, tmp_path):
    apps = f"{A100}, {os.getpid()}, 11000, /usr/bin/python3\n{A100}, 999999999, 400, python, with a comma\n"
    one = SmiMachine(smi(apps=apps))
    first, second = one.gpus((os.getpid(),))
    assert (first.index, first.uuid, first.name) == (0, A100, "NVIDIA A100-SXM4-80GB")
    assert (first.capacity_bytes, first.used_bytes, first.free_bytes) == (
        81920 * MIB,
        12034 * MIB,
        69237 * MIB,
    )
    assert (first.utilization, second.utilization) == (97, None)
    own, other = first.processes
    assert (own.pid, own.used_bytes, own.ours) == (os.getpid(), 11000 * MIB, True)
    assert (other.pid, other.used_bytes, other.ours) == (999999999, 400 * MIB, False)
    assert other.name == "python, with a comma"
    assert second.processes == ()
    assert (one.source(), one.why()) == ("nvidia-smi", "")
    asked = (tmp_path / "asked").read_text()
    assert "--query-gpu=index,uuid," in asked
    assert "--format=csv,noheader,nounits" in asked


def test_bytes_that_it_may_not_tell(smi):
    one = SmiMachine(smi(apps=f"{A100}, {os.getpid()}, [N/A], [Insufficient Permissions]\n"))
    first, _ = one.gpus()
    assert first.processes[0].used_bytes is None
    assert "bytes of each process" in first.missing


@pytest.mark.parametrize(
    "apps",
    [
        "",
        "No running processes found\n",
        "\x00\xff garbage,,,\n,,,\n",
        "a, b, c, d\n",
        "No devices were found",
    ],
)
def test_garbage_is_no_process(smi, apps):
    program = smi()
    one = SmiMachine(program)
    smi(apps=apps)
    assert [gpu.processes for gpu in one.gpus()] == [(), ()]


def test_garbage_among_the_cards(smi):
    mixed = (
        "Failed to initialize NVML: Driver/library version mismatch\n" + GPUS + "x, y\n\n[Unknown Error]\n"
    )
    assert len(SmiMachine(smi(mixed)).gpus()) == 2


def test_a_card_that_fell_off_the_bus(smi):
    program = smi()
    one = SmiMachine(program)
    smi("Unable to determine the device handle for GPU0000:41:00.0: Unknown Error\n", body="", apps="")
    assert one.gpus() == ()


def test_it_fails(smi):
    with pytest.raises(Unavailable, match=r"ended with 9: NVIDIA-SMI has failed"):
        SmiMachine(smi("", body="print('NVIDIA-SMI has failed because it could not'); sys.exit(9)\n"))
    with pytest.raises(Unavailable, match="lists no GPU"):
        SmiMachine(smi("No devices were found\n"))
    with pytest.raises(Unavailable, match="cannot be started"):
        SmiMachine("/nowhere/nvidia-smi")


def test_it_hangs(smi):
    program = smi()
    one = SmiMachine(program, timeout_s=30.0)
    smi(body="import time; time.sleep(60)\n")
    one._timeout_s = 0.2
    assert one.gpus() == ()


def test_processes_that_cannot_be_asked_for_are_missing(smi):
    one = SmiMachine(smi())
    smi(body="if '--query-compute-apps' in sys.argv[1]: sys.exit(3)\n")
    assert one.gpus()[0].missing == "nvidia-smi ended with 3"


def test_the_choice(smi, tmp_path, monkeypatch):
    def without(*_: object) -> None:
        raise ImportError

    monkeypatch.setattr(choose, "NvmlMachine", without)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    nobody = machine()
    assert isinstance(nobody, NoMachine)
    assert nobody.gpus() == ()
    assert nobody.source() == "none"
    assert "pip install 'oomph[gpu]'" in nobody.why()
    assert nobody.host().children == 0

    smi()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine().source() == "nvidia-smi"

    smi("", body="sys.exit(9)\n")
    assert "nvidia-smi lists no GPU" in machine().why()

    def broken(*_: object) -> None:
        raise Unavailable("NVML does not start: Driver Not Loaded")

    monkeypatch.setattr(choose, "NvmlMachine", broken)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert "Driver Not Loaded" in machine().why()
