"""Whatever the recorder does, the script reads what it would read without it, and the recorder its phases."""

from __future__ import annotations

import functools
import sys
import types
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.memory.allocator.core import CachingAllocator
from oomph.memory.allocator.settings import AllocatorSettings
from oomph.probe import peaks as module
from oomph.probe.peaks import SCRIPT, Peaks
from tests.probe.fake_cuda import FakeCuda, nested

MIB = 1 << 20

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("alloc"), st.integers(1, 40 * MIB)),
        st.tuples(st.just("free"), st.integers(0, 30)),
        st.tuples(st.just("pool"), st.integers(1, 4 * MIB)),
        st.tuples(st.just("end pool"), st.just(0)),
        st.tuples(st.just("empty"), st.just(0)),
        st.tuples(st.just("script resets"), st.just(0)),
        st.tuples(st.just("script reads"), st.just(0)),
        st.tuples(st.just("first begins"), st.just(0)),
        st.tuples(st.just("second begins"), st.just(0)),
        st.tuples(st.just("recorders read"), st.just(0)),
    ),
    max_size=60,
)


class Twin:
    """One allocator that the recorders share with the script, and for each reader one of his own."""

    def __init__(self):
        self.shared = self.make()
        self.alone = {who: self.make() for who in (SCRIPT, "first", "second")}
        self.held = []
        self.pool = (0, 1)

    @staticmethod
    def make():
        return CachingAllocator(AllocatorSettings(torch=(2, 13)), 1 << 36, record=False)

    def each(self):
        return [self.shared, *self.alone.values()]

    def do(self, what, value):
        if what in ("alloc", "pool"):
            pool = (0, 0) if what == "alloc" else self.pool
            self.held.append([one.malloc(value, 0, pool) for one in self.each()])
        elif what == "free" and self.held:
            for one, address in zip(self.each(), self.held.pop(value % len(self.held)), strict=True):
                one.free(address)
        elif what == "end pool" and self.pool in self.shared.private:
            for one in self.each():
                one.release_pool(self.pool)
            self.pool = (0, self.pool[1] + 1)
        elif what == "empty":
            for one in self.each():
                one.empty_cache()


@settings(max_examples=200, deadline=None)
@given(OPERATIONS)
def test_each_reads_what_he_would_read_alone(operations):
    twin = Twin()
    peaks = Peaks(lambda _: nested(twin.shared.stats()), lambda _: twin.shared.reset_peaks())
    for who in ("first", "second"):
        peaks.add(who)
    for what, value in operations:
        if what == "end pool":
            twin.do(what, value)
            continue
        who, _, did = what.partition(" ")
        who = SCRIPT if who == "script" else who
        if did in ("resets", "begins"):
            peaks.reset(who, 0)
            twin.alone[who].reset_peaks()
        elif did == "reads":
            assert peaks.stats(who, 0) == nested(twin.alone[who].stats())
        elif did == "read":
            for one in ("first", "second"):
                assert peaks.stats(one, 0) == nested(twin.alone[one].stats())
        else:
            twin.do(what, value)
    for who, allocator in twin.alone.items():
        assert peaks.stats(who, 0) == nested(allocator.stats())


torch = pytest.importorskip("torch")


@pytest.fixture
def cuda(monkeypatch):
    monkeypatch.setattr(module, "_installed", [])
    fake = FakeCuda(2)
    fake.install(monkeypatch)
    return fake


def read_everything():
    """All that a script can ask of peaks, by the names that scripts use."""
    found = {
        "max_memory_allocated": torch.cuda.max_memory_allocated(),
        "max_memory_reserved": torch.cuda.max_memory_reserved(),
        "of a device": torch.cuda.max_memory_allocated(device=torch.device("cuda", 0)),
        "memory_stats": dict(torch.cuda.memory_stats()),
        "nested": torch.cuda.memory_stats_as_nested_dict(),
        "summary": torch.cuda.memory_summary(),
        "in memory": torch.cuda.memory.max_memory_allocated(),
        "accelerator": torch.accelerator.max_memory_allocated(),
        "accelerator's stats": dict(torch.accelerator.memory_stats()),
        "direct": torch._C._cuda_memoryStats(0),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found["max_memory_cached"] = torch.cuda.max_memory_cached()
    return found


def deprecated(name):
    def call():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(torch.cuda, name)()

    return call


RESETS = {
    "reset_peak_memory_stats": torch.cuda.reset_peak_memory_stats,
    "reset_max_memory_allocated": deprecated("reset_max_memory_allocated"),
    "reset_max_memory_cached": deprecated("reset_max_memory_cached"),
    "accelerator": torch.accelerator.reset_peak_memory_stats,
    "in memory": lambda: torch.cuda.memory.reset_peak_memory_stats(0),
}


@pytest.mark.parametrize("reset", RESETS.values(), ids=RESETS)
def test_every_name_that_torch_has_reads_as_without(cuda, monkeypatch, reset):
    from oomph.probe.cuda import CudaDevice

    def script(begin):
        seen = []
        allocator = cuda.allocators[0]
        high = allocator.malloc(100 * MIB)
        begin()
        seen.append(read_everything())
        allocator.free(high)
        begin()
        low = allocator.malloc(10 * MIB)
        seen.append(read_everything())
        reset()
        seen.append(read_everything())
        high = allocator.malloc(50 * MIB)
        allocator.free(high)
        begin()
        begin()
        seen.append(read_everything())
        allocator.free(low)
        return seen

    without = script(lambda: None)
    cuda.allocators[0] = FakeCuda().allocators[0]
    device = CudaDevice()
    assert device.limits == ()
    assert script(device.begin) == without


def test_a_reset_of_the_script_cuts_no_phase_short(cuda):
    from oomph.probe.cuda import CudaDevice

    device = CudaDevice(0)
    allocator = cuda.allocators[0]
    device.begin()
    high = allocator.malloc(100 * MIB)
    allocator.free(high)
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == 0
    assert device.read().peak_allocated_bytes == 100 * MIB
    device.begin()
    assert device.read().peak_allocated_bytes == 0


def test_devices_are_apart(cuda):
    from oomph.probe.cuda import CudaDevice

    first, second = CudaDevice(0), CudaDevice(1)
    one = cuda.allocators[1].malloc(30 * MIB)
    cuda.allocators[1].free(one)
    first.begin()
    assert second.read().peak_allocated_bytes == 30 * MIB
    second.begin()
    assert second.read().peak_allocated_bytes == 0
    assert torch.cuda.max_memory_allocated(1) == 30 * MIB


def test_what_is_closed_leaves_torch_as_it_was_once_that_says_the_same(cuda):
    from oomph.probe.cuda import CudaDevice

    before = torch._C._cuda_memoryStats
    device = CudaDevice(0)
    assert torch._C._cuda_memoryStats is not before
    high = cuda.allocators[0].malloc(MIB * 20)
    cuda.allocators[0].free(high)
    device.begin()
    device.close()
    # The script's peak is nowhere but here: it stays true until the script resets it.
    assert torch.cuda.max_memory_allocated() == 20 * MIB
    torch.cuda.reset_peak_memory_stats()
    assert torch._C._cuda_memoryStats is before
    assert torch.cuda.max_memory_allocated() == 0

    other = CudaDevice(0)
    other.close()
    assert torch._C._cuda_memoryStats is before


def test_somebody_who_wraps_the_same_function_later_is_left_alone(cuda, monkeypatch):
    from oomph.probe.cuda import CudaDevice

    device = CudaDevice(0)
    ours = torch._C._cuda_memoryStats
    theirs = functools.partial(ours)
    monkeypatch.setattr(torch._C, "_cuda_memoryStats", theirs)
    device.close()
    assert torch._C._cuda_memoryStats is theirs


def test_a_module_that_holds_the_function_itself_is_named(cuda, monkeypatch):
    from oomph.probe.cuda import CudaDevice

    holder = types.ModuleType("tracker")
    vars(holder)["stats"] = torch._C._cuda_memoryStats
    monkeypatch.setitem(sys.modules, "tracker", holder)
    (limit,) = CudaDevice(0).limits
    assert limit.startswith("tracker.stats reads the allocator's peaks directly")


def test_a_torch_without_these_functions_is_a_limit(cuda, monkeypatch):
    from oomph.probe.cuda import CudaDevice

    monkeypatch.delattr(torch._C, "_cuda_resetPeakMemoryStats")
    (limit,) = CudaDevice(0).limits
    assert "max_memory_allocated" in limit
