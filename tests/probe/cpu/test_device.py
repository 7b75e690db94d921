from __future__ import annotations

import os
import pickle
import threading
import warnings

import pytest

from oomph.errors import UsageError

torch = pytest.importorskip("torch")

MIB = 1 << 20


def test_a_request_beyond_the_capacity_fails_as_pytorch_does(card):
    base = card().read().reserved_bytes
    device = card(base + 64 * MIB)
    told: list[tuple[int, int, int, int]] = []
    reserved: list[int] = []
    device.on_out_of_memory(lambda *numbers: told.append(numbers))
    device.on_out_of_memory(lambda *_: reserved.append(device.whole().reserved_bytes))
    held = torch.empty(40 * MIB, dtype=torch.uint8)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(30 * MIB - 5, dtype=torch.uint8)
    text = str(caught.value)
    assert text.startswith("CUDA out of memory. Tried to allocate 30.00 MiB. GPU 0 has a total capacity of ")
    assert "simulated" in text
    now = device.whole()
    assert now.total_bytes == base + 64 * MIB
    assert now.free_bytes == now.total_bytes - now.reserved_bytes
    assert (now.outside_bytes, now.other_processes_bytes) == (0, 0)
    assert told == [(0, 30 * MIB, now.total_bytes, now.free_bytes)]
    assert reserved == [now.reserved_bytes]
    assert (now.ooms, now.retries) == (1, 1)
    del held
    # What was given back serves the next request; a capacity is no end.
    assert torch.empty(30 * MIB, dtype=torch.uint8).numel() == 30 * MIB
    assert device.read().ooms == 1


def test_the_message_is_read_as_a_message_of_pytorch(card, tmp_path):
    from oomph import explain

    device = card(card().read().reserved_bytes + 8 * MIB)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(30 * MIB, dtype=torch.uint8)
    assert device.read().ooms == 1
    log = tmp_path / "train.log"
    log.write_text(
        "Traceback (most recent call last):\n"
        '  File "train.py", line 3, in <module>\n'
        "    torch.empty(30)\n"
        f"torch.OutOfMemoryError: {caught.value}\n"
    )
    assert explain([log]).findings


def test_memory_runs_out_in_backward_and_the_job_can_go_on(card):
    layers = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])
    x = torch.randn(4096, 512)

    def forward():
        out = layers(x)
        return (out.exp() * out.exp()).sum()

    device = card()
    loss = forward()
    needed = device.read().peak_reserved_bytes
    loss.backward()
    assert device.read().peak_reserved_bytes > needed + 8 * MIB
    del loss
    layers.zero_grad()

    device = card(needed + 4 * MIB)  # small blocks may lie otherwise than before
    loss = forward()
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        loss.backward()
    assert device.read().ooms == 1
    del loss
    layers.zero_grad()
    layers(x[:64]).sum().backward()
    assert layers[0].weight.grad is not None


def test_an_out_of_memory_in_a_resize_leaves_the_storage_as_it_was(card):
    device = card(card().read().reserved_bytes + 22 * MIB)
    flat = torch.zeros(MIB)
    flat.untyped_storage().resize_(0)
    before = device.read().allocated_bytes
    with pytest.raises(torch.OutOfMemoryError):
        flat.untyped_storage().resize_(64 * MIB)
    assert flat.untyped_storage().nbytes() == 0
    assert device.read().allocated_bytes == before


def test_peaks_begin_anew_and_stats_know_all_time(card):
    device = card()
    high = torch.zeros(8 * MIB)
    top = device.read().allocated_bytes
    del high
    device.begin()
    low = torch.zeros(MIB)
    now = device.read()
    assert now.peak_allocated_bytes == now.allocated_bytes == top - 28 * MIB
    stats = device.stats()
    assert stats["allocated_bytes.all.peak"] == top
    assert stats["allocated_bytes.all.current"] == now.allocated_bytes
    assert device.read() == now
    assert "num_alloc_retries" in stats
    assert "reserved_bytes.large_pool.peak" in stats
    text = device.summary()
    assert "PyTorch CUDA memory summary, device ID 0" in text
    assert "CUDA OOMs: 0" in text
    assert low.numel()


def test_a_snapshot_is_one_of_pytorch(card, tmp_path):
    from oomph import snapshot

    device = card(card().read().reserved_bytes + 64 * MIB)
    assert device.record_history(10_000) == ""
    held = torch.zeros(5 * MIB)
    gone = torch.zeros(3 * MIB)
    del gone
    with pytest.raises(torch.OutOfMemoryError):
        torch.zeros(32 * MIB)
    path = tmp_path / "snapshot.pickle"
    assert device.dump_snapshot(path) == ""
    assert [one.name for one in tmp_path.iterdir()] == ["snapshot.pickle"]
    content = pickle.loads(path.read_bytes())  # noqa: S301 - just written
    (events,) = content["device_traces"]
    actions = [event["action"] for event in events]
    assert actions.count("oom") == 1
    alloc = next(event for event in events if event["action"] == "alloc" and event["size"] == 20 * MIB)
    assert alloc["frames"][0]["name"] == "test_a_snapshot_is_one_of_pytorch"
    assert alloc["frames"][0]["filename"] == __file__
    blocks = [block for segment in content["segments"] for block in segment["blocks"]]
    mine = [block for block in blocks if block["requested_size"] == 20 * MIB]
    assert mine[0]["frames"] == alloc["frames"]
    allocated = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    assert allocated == device.read().allocated_bytes
    assert sum(segment["total_size"] for segment in content["segments"]) == device.read().reserved_bytes
    report = snapshot(path)
    assert report is not None
    assert held.numel()


def test_history_keeps_the_latest(card, tmp_path):
    device = card()
    device.record_history(10)
    for _ in range(20):
        torch.zeros(100)
    device.dump_snapshot(tmp_path / "s.pickle")
    content = pickle.loads((tmp_path / "s.pickle").read_bytes())  # noqa: S301 - just written
    (events,) = content["device_traces"]
    assert len(events) == 10


def test_a_snapshot_that_cannot_be_written_is_a_sentence(card, tmp_path):
    assert "cannot be written" in card().dump_snapshot(tmp_path / "nowhere" / "s.pickle")


def test_the_capacity_of_the_environment(card, monkeypatch):
    monkeypatch.setenv("OOMPH_CPU_CAPACITY", "2GiB")
    assert card().whole().total_bytes == 2 << 30
    monkeypatch.setenv("OOMPH_CPU_CAPACITY", "much")
    with pytest.raises(UsageError, match="much is no size"):
        card()


def test_without_a_capacity_the_reason_is_given(card):
    now = card().whole()
    assert now.free_bytes is None
    assert "OOMPH_CPU_CAPACITY" in now.missing


def test_a_card_that_was_overfull_before_is_said_to_be(card):
    big = torch.ones(3 << 18)  # 3 MiB
    assert any("more than the card's 2.00 MiB" in limit for limit in card(2 << 20).limits)
    assert not any("more than the card's" in limit for limit in card(1 << 40).limits)
    del big


def test_allocator_settings_of_the_environment_count(card, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    device = card()
    assert device._card.allocator.expandable
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:perhaps")
    assert any("allocator settings" in limit for limit in card().limits)


def test_closing_puts_everything_back(card):
    from torch.utils.flop_counter import FlopCounterMode

    depth = torch._C._len_torch_dispatch_stack()
    resize = torch.UntypedStorage.resize_
    with FlopCounterMode(display=False) as flops:
        device = card()
        x = torch.ones(8, 8)
        assert x @ x is not None
        other = card()
        device.close()
        before = other.read().allocated_bytes
        y = torch.zeros(1000)
        assert other.read().allocated_bytes == before + 4096
        other.close()
        device.close()
        assert x @ x is not None
    assert flops.get_total_flops() == 2 * 2 * 8**3
    assert torch._C._len_torch_dispatch_stack() == depth
    assert torch.UntypedStorage.resize_ is resize or vars(torch.UntypedStorage).get("resize_") is None
    assert y.numel()


def test_a_mode_of_the_script_may_end_after_the_device_began(card):
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False):
        device = card()
    start = device.read().allocated_bytes
    x = torch.zeros(1000)
    assert device.read().allocated_bytes == start + 4096
    assert x.numel()


def test_tensors_of_other_threads_count_when_they_are_used(card):
    device = card()
    start = device.read().allocated_bytes
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.zeros(1000)))
    thread.start()
    thread.join()
    assert found[0].sum().item() == 0
    assert device.read().allocated_bytes == start + 4096
    # And go when another thread lets them go.
    thread = threading.Thread(target=found.clear)
    thread.start()
    thread.join()
    assert device.read().allocated_bytes == start


def test_torch_compile_compiles_nothing_meanwhile(card):
    """As `limits` says: operators that no mode sees would be missing from the numbers."""
    graphs: list[object] = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: (x * 2).sin() + 1, backend=backend)
    device = card()
    start = device.read().allocated_bytes
    result = compiled(torch.zeros(1000))
    assert device.read().allocated_bytes == start + 4096
    assert graphs == []
    assert result[0] == 1
    assert "torch.compile" in device.limits[0]


def test_wrappers_and_fakes_are_no_memory(card):
    from torch._subclasses.fake_tensor import FakeTensorMode

    device = card()
    start = device.read().allocated_bytes
    device.begin()
    with FakeTensorMode():
        fake = torch.zeros(1 << 30)
        assert (fake + 1).shape == fake.shape
    meta = torch.zeros(1 << 30, device="meta") + 1
    sparse = torch.eye(4).to_sparse() * 2
    assert device.read().peak_allocated_bytes < start + 64 * 512
    assert meta.device.type == "meta"
    assert sparse.sum().item() == 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_counts_nothing(card):
    device = card(card().read().reserved_bytes + 22 * MIB)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own, about threads
        pid = os.fork()
    if pid == 0:
        try:
            torch.empty(1 << 28, dtype=torch.uint8)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 28, dtype=torch.uint8)
    assert device.read().ooms == 1


def test_the_numbers_of_events_are_those_of_timelines():
    from oomph.memory.allocator import arena
    from oomph.memory.timeline import Kind
    from oomph.probe.cpu import card as module

    assert (module.ALLOC, module.FREE_REQUESTED, module.FREE_COMPLETED, module.OOM) == (
        Kind.ALLOC,
        Kind.FREE_REQUESTED,
        Kind.FREE_COMPLETED,
        Kind.OOM,
    )
    assert module._KINDS == {
        arena.SEGMENT_ALLOC: Kind.SEGMENT_ALLOC,
        arena.SEGMENT_FREE: Kind.SEGMENT_FREE,
        arena.SEGMENT_MAP: Kind.SEGMENT_MAP,
        arena.SEGMENT_UNMAP: Kind.SEGMENT_UNMAP,
        arena.OOM: Kind.OOM,
    }
