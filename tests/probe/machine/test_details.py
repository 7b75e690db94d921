"""What NVML tells beside memory; numbers and structures as nvml.h documents them."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

pynvml = pytest.importorskip("pynvml")

from oomph.probe.machine.details import NvmlDetails, OnCard, Part  # noqa: E402 - needs pynvml
from oomph.probe.machine.smi_text import SmiText  # noqa: E402
from tests.probe.machine.fake_nvml import MIB, Card, FakeNvml, process  # noqa: E402

NAME = "NVIDIA A100-SXM4-80GB"


def refused(*_):
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


class Telling(FakeNvml):
    """Every card tells the same of itself."""

    def nvmlSystemGetDriverVersion(self):  # noqa: N802 - NVML's name
        return b"535.104.05"

    def nvmlSystemGetCudaDriverVersion_v2(self):  # noqa: N802
        return 12020


def telling(*cards, **answers):
    nvml = Telling(*cards)
    for name, answer in answers.items():
        setattr(nvml, name, answer if callable(answer) else lambda *_, answer=answer: answer)
    return nvml


def test_everything():
    card = Card("GPU-1", NAME, 81920 * MIB, 12000 * MIB, reserved=600 * MIB, utilization=93, mig=0)
    card.compute = [process(4711, 11000 * MIB), process(12, None)]
    card.graphics = [process(4711, 11000 * MIB), process(99, 4 * MIB)]
    counts = {0: 3, 1: 17}  # since the driver was loaded, and of all times
    nvml = telling(
        card,
        nvmlDeviceGetPciInfo=SimpleNamespace(busId=b"00000000:3B:00.0"),
        nvmlDeviceGetCudaComputeCapability=[8, 0],
        nvmlDeviceGetPersistenceMode=1,
        nvmlDeviceGetEccMode=[1, 1],
        nvmlDeviceGetTotalEccErrors=lambda _, kind, counter: counts[counter] if kind == 1 else 10**9,
        nvmlDeviceGetRemappedRows=[0, 2, 1, 0],
        nvmlDeviceGetComputeMode=3,
        nvmlDeviceGetDisplayActive=0,
    )
    nvml.names[4711] = b"/usr/bin/python3.11"
    told = NvmlDetails(nvml).details()
    assert (told.source, told.driver, told.cuda) == ("NVML", "535.104.05", "12.2")
    (one,) = told.cards
    assert (one.index, one.uuid, one.bus_id, one.name) == (0, "GPU-1", "00000000:3B:00.0", NAME)
    assert (one.capability, one.utilization) == ((8, 0), 93)
    assert (one.total_bytes, one.used_bytes, one.reserved_bytes) == (81920 * MIB, 12000 * MIB, 600 * MIB)
    assert one.free_bytes == (81920 - 12000 - 600) * MIB
    assert (one.persistence, one.mig, one.ecc, one.display_active) == (True, False, True, False)
    assert (one.ecc_uncorrected, one.remap_pending, one.remap_failed) == (17, True, False)
    assert (one.compute_mode, one.driver_model) == ("Exclusive_Process", "")
    assert one.processes == (
        OnCard(4711, 11000 * MIB, "python3.11", "C+G"),
        OnCard(12, None, "", "C"),
        OnCard(99, 4 * MIB, "", "G"),
    )


def test_what_is_not_supported_is_not_told():
    card = Card(
        "GPU-1", "NVIDIA GeForce RTX 3060", 12288 * MIB, 0, compute=refused_error(), graphics=refused_error()
    )
    nvml = telling(card, nvmlDeviceGetRemappedRows=refused, nvmlDeviceGetEccMode=refused)
    (one,) = NvmlDetails(nvml).details().cards
    assert (one.processes, one.ecc, one.mig, one.remap_failed, one.remap_pending) == (None,) * 5
    assert (one.persistence, one.capability, one.compute_mode, one.bus_id) == (None, None, "", "")


def refused_error():
    return pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.mark.parametrize(("driver", "used"), [(b"470.82.01", 4 * MIB), (b"535.104.05", None), (b"odd", None)])
def test_used_memory_of_version_1(driver, used):
    """Since 510 its `used` counts what the driver keeps for itself too, which is nobody's process."""
    nvml = Telling(Card("GPU-1", NAME, 81920 * MIB, 4 * MIB), version_2=False)
    nvml.nvmlSystemGetDriverVersion = lambda: driver  # type: ignore[method-assign]
    (one,) = NvmlDetails(nvml).details().cards
    assert (one.used_bytes, one.free_bytes, one.reserved_bytes) == (used, 81916 * MIB, None)


def test_retired_pages_of_older_cards():
    nvml = telling(Card("GPU-1", "Tesla V100", 16160 * MIB, 0), nvmlDeviceGetRetiredPagesPendingStatus=1)
    (one,) = NvmlDetails(nvml).details().cards
    assert (one.remap_pending, one.remap_failed) == (True, None)


def test_mig_devices_and_their_processes():
    part = Card("MIG-aaaa", f"{NAME} MIG 3g.40gb", 40192 * MIB, 800 * MIB, compute=[process(7, 700 * MIB)])
    (one,) = NvmlDetails(telling(Card("GPU-1", NAME, 81920 * MIB, 0, mig=1, parts=[part]))).details().cards
    assert one.mig is True
    assert one.parts == (Part("3g.40gb", 40192 * MIB, "MIG-aaaa"),)
    assert [process.pid for process in one.processes or ()] == [7]
    (bare,) = NvmlDetails(telling(Card("GPU-1", NAME, 81920 * MIB, 0, mig=1))).details().cards
    assert (bare.mig, bare.parts) == (True, ())


def test_a_lost_card():
    first, second = (
        NvmlDetails(telling(Card("GPU-1", NAME, 1, 0, lost=True), Card("GPU-2", NAME, 1, 0))).details().cards
    )
    assert first.missing == "this GPU does not answer: GPU is lost"
    assert (second.index, second.uuid) == (1, "GPU-2")


@pytest.mark.skipif(os.name == "nt", reason="needs executable scripts")
class TestText:
    def program(self, folder, body):
        path = folder / "nvidia-smi"
        path.write_text(f"#!{sys.executable}\nimport sys\n{body}")
        path.chmod(0o755)
        return str(path)

    def test_the_text_and_the_capabilities(self, tmp_path):
        uuid = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
        smi = SmiText(
            self.program(
                tmp_path,
                f"print('==NVSMI LOG==') if sys.argv[1] == '-q' else print('{uuid}, 8.0\\nGPU-1, 9.0\\n{uuid}, [N/A]')",
            )
        )
        assert (smi.text, smi.why) == ("==NVSMI LOG==\n", "")
        assert smi.capabilities() == {uuid: (8, 0)}

    def test_it_fails(self, tmp_path):
        smi = SmiText(
            self.program(
                tmp_path,
                "print('Failed to initialize NVML: Driver/library version mismatch')\n"
                "print('NVML library version: 535.161')\nsys.exit(18)",
            )
        )
        assert smi.why == (
            "nvidia-smi ended with 18: Failed to initialize NVML: Driver/library version mismatch"
        )
        assert smi.text.splitlines()[1] == "NVML library version: 535.161"
        assert smi.capabilities() == {}

    def test_it_hangs_or_is_not_there(self, tmp_path, monkeypatch):
        assert SmiText(self.program(tmp_path, "import time; time.sleep(60)"), 0.2).why == (
            "nvidia-smi did not answer within 0.2 s"
        )
        assert "cannot be started" in SmiText(str(tmp_path / "nothing")).why
        monkeypatch.setenv("PATH", str(tmp_path / "empty"))
        assert SmiText().why == "there is no nvidia-smi on the path"
