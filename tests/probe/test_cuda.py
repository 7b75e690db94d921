from __future__ import annotations

import pickle

import pytest

from oomph.errors import UsageError
from oomph.probe import choose, peaks, shares
from oomph.probe.cpu import CpuDevice
from oomph.probe.cuda import CudaDevice
from tests.probe.fake_cuda import GIB, FakeCuda

torch = pytest.importorskip("torch")

MIB = 1 << 20


@pytest.fixture
def cuda(monkeypatch):
    monkeypatch.setattr(peaks, "_installed", [])
    monkeypatch.setattr(shares, "_nvml", lambda: "no NVML in this test")
    fake = FakeCuda(2)
    fake.install(monkeypatch)
    return fake


def test_counters_are_those_of_memory_stats(cuda):
    device = CudaDevice(0)
    allocator = cuda.allocators[0]
    allocator.malloc(3 * MIB + 1)
    gone = allocator.malloc(5 * MIB)
    allocator.free(gone)
    now = device.read()
    assert now.allocated_bytes == 3 * MIB + 512
    assert now.requested_bytes == 3 * MIB + 1
    assert now.reserved_bytes == now.peak_reserved_bytes == 20 * MIB
    assert now.inactive_split_bytes == 20 * MIB - 3 * MIB - 512
    assert now.peak_allocated_bytes == 8 * MIB + 512
    assert (now.retries, now.ooms, now.missing) == (0, 0, "")
    stats = device.stats()
    assert stats["allocated_bytes.all.peak"] == 8 * MIB + 512
    assert "CUDA memory summary" in device.summary()


def test_the_whole_card(cuda):
    device = CudaDevice(0)
    cuda.allocators[0].malloc(30 * MIB)
    now = device.whole()
    assert (now.free_bytes, now.total_bytes) == (80 * GIB - 30 * MIB, 80 * GIB)
    assert (now.outside_bytes, now.other_processes_bytes) == (None, None)
    assert now.missing == "no NVML in this test"


def test_nothing_initializes_cuda(cuda, monkeypatch):
    cuda.initialized = False

    def never(*_: object) -> None:
        raise AssertionError("this initializes CUDA")

    for name in ("current_device", "get_device_name", "mem_get_info", "synchronize", "memory_stats"):
        monkeypatch.setattr(torch.cuda, name, never)
    monkeypatch.setenv("LOCAL_RANK", "1")
    device = CudaDevice()
    device.begin()
    assert device.read().missing.startswith("CUDA is not initialized")
    assert device.whole().allocated_bytes == 0
    assert (device.index, device.name, device.stats(), device.summary()) == (1, "", {}, "")
    device.synchronize()
    assert device.record_history(100) == ""
    device.on_out_of_memory(lambda *_: None)
    assert (cuda.histories, cuda.observers) == ([], [])
    monkeypatch.undo()


def test_what_waited_happens_when_cuda_begins(cuda):
    cuda.initialized = False
    device = CudaDevice()
    device.record_history(100)
    told: list[tuple[int, ...]] = []
    device.on_out_of_memory(lambda *numbers: told.append(numbers))
    cuda.initialize()
    ((arguments, options),) = cuda.histories
    assert (arguments, options["max_entries"], options["stacks"]) == (("all",), 100, "python")
    cuda.observers[0](0, 1, 2, 3)
    assert told == [(0, 1, 2, 3)]


def test_observers_never_raise_and_end_with_the_device(cuda):
    device = CudaDevice()
    told: list[int] = []

    def broken(*_: int) -> None:
        told.append(1)
        raise ValueError("mine")

    device.on_out_of_memory(broken)
    cuda.observers[0](0, 1, 2, 3)
    device.close()
    cuda.observers[0](0, 1, 2, 3)
    assert told == [1]


def test_the_scripts_own_history_is_left_as_it_is(cuda):
    cuda.history = True
    assert CudaDevice().record_history(100) == ""
    assert cuda.histories == []


def test_the_device_is_the_one_that_is_used(cuda):
    device = CudaDevice()
    assert device.index == 0
    cuda.allocators[1].malloc(MIB)
    assert device.read().allocated_bytes == MIB
    assert device.index == 1
    cuda.allocators[0].malloc(100 * MIB)
    assert device.index == 1


def test_memory_on_other_devices_is_said(cuda):
    device = CudaDevice(0)
    cuda.allocators[0].malloc(MIB)
    assert "cuda:1" not in device.whole().missing
    cuda.allocators[1].malloc(MIB)
    assert "this process has memory on cuda:1 too, which is not counted here" in device.whole().missing


def test_errors_of_torch_are_words(cuda, monkeypatch):
    device = CudaDevice(0)
    monkeypatch.setattr(
        torch.cuda,
        "mem_get_info",
        lambda _: (_ for _ in ()).throw(RuntimeError("CUDA error: device lost\nmore")),
    )
    assert "CUDA error: device lost" in device.whole().missing
    assert "more" not in device.whole().missing


def test_a_snapshot_is_whole_or_not_there(cuda, monkeypatch, tmp_path):
    def dump(name: str) -> None:
        with open(name, "wb") as stream:
            pickle.dump({"segments": []}, stream)

    device = CudaDevice(0)
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", dump)
    assert device.dump_snapshot(tmp_path / "snapshot.pickle") == ""
    assert [one.name for one in tmp_path.iterdir()] == ["snapshot.pickle"]

    def fail(name: str) -> None:
        with open(name, "wb") as stream:
            stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", fail)
    assert "No space left" in device.dump_snapshot(tmp_path / "other.pickle")
    assert [one.name for one in tmp_path.iterdir()] == ["snapshot.pickle"]


def test_another_allocator_is_a_limit(cuda, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "cudaMallocAsync")
    assert any("cudaMallocAsync" in limit for limit in CudaDevice(0).limits)


def test_the_choice_of_a_device(cuda, monkeypatch):
    assert choose.device().kind == "cuda"
    assert choose.device("cuda", 1).index == 1
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="no CUDA device"):
        choose.device("cuda")
    with pytest.raises(UsageError, match="tpu"):
        choose.device("tpu")
    monkeypatch.undo()
    device = choose.device()
    assert isinstance(device, CpuDevice)
    assert not any("not read" in limit for limit in device.limits)
    device.close()


def test_another_accelerator_is_a_limit(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("xpu"))
    device = choose.device()
    device.close()
    assert any("kind xpu, whose memory is not read" in limit for limit in device.limits)
    device = choose.device("cpu")
    device.close()
    assert not any("xpu" in limit for limit in device.limits)
