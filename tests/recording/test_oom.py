"""A request that fails: what is kept, before and after the exception is seen."""

from __future__ import annotations

import json
import threading

import pytest
import torch

from oomph.evidence.run.model import OomRecord
from oomph.phases import Phase
from oomph.recording.oom import MOST_KEPT, ledger_of, out_of_memory
from tests.recording.devices import MIB, FakeDevice
from tests.recording.told import told

GIB = 1 << 30


class Fails(torch.nn.Module):
    """Fails as PyTorch does: the observers first, the exception next."""

    def __init__(self, device):
        super().__init__()
        self.inner = torch.nn.Linear(4, 2)
        self.device = device
        self.fails = False

    def forward(self, x):
        if self.fails:
            self.device.fail(3 * GIB)
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 GiB.")
        return self.inner(x)


@pytest.fixture
def device():
    one = FakeDevice(capacity_bytes=4 * GIB)
    one.take(2 * GIB)
    return one


def ooms(run):
    return [one for one in run.writer.held if isinstance(one, OomRecord)]


def test_all_is_kept_before_the_exception_is_seen(record, device, tmp_path):
    with record(device=device) as run:
        with run.phase("backward", batch={"input_ids": torch.ones(2, 7)}):
            device.fail(3 * GIB)
            folder = tmp_path / "run" / "oom" / "rank-00000"
            assert sorted(path.name for path in folder.iterdir()) == [
                "oom.json",
                "snapshot.pickle",
                "stats.json",
                "summary.txt",
                "traceback.txt",
            ]
            stack = (folder / "traceback.txt").read_text()
            assert "test_all_is_kept_before" in stack
            assert "oom.py" in stack.splitlines()[1] or "test_oom" in stack
            content = json.loads((folder / "oom.json").read_text())
        assert content["phase"] == "backward"
        assert content["batch"] == {"input_ids": [2, 7]}
        assert content["ledger"] == {
            "capacity_bytes": 4 * GIB,
            "free_bytes": 2 * GIB,
            "other_processes_bytes": 0,
            "process_bytes": 2 * GIB,
            "outside_bytes": 0,
            "reserved_bytes": 2 * GIB,
            "allocated_bytes": 2 * GIB,
            "cached_bytes": 0,
            "segment_bytes": 3 * GIB,
            "not_torch_bytes": 0,
        }
        assert (folder / "snapshot.pickle").read_bytes() == b"snapshot"


def test_the_exception_adds_its_message_and_its_traceback(record, device, tmp_path):
    net = Fails(device)
    run = record(model=net, device=device)
    net.fails = True
    with pytest.raises(torch.OutOfMemoryError), run:
        net(torch.ones(3, 4))
    assert told(run) == [
        "load -1",
        "oom forward 0",
        "oom forward 0",
        "oom forward 0",
        "forward 0 OutOfMemoryError",
        "end oom",
    ]
    records = ooms(run)
    assert len({one.clock for one in records}) == 1
    assert records[0].message == ""
    assert records[-1].message.startswith("CUDA out of memory. Tried to allocate 3.00 GiB.")
    assert records[-1].request_bytes == 3 * GIB
    assert records[-1].batch == {"x": (3, 4)}
    text = (tmp_path / "run" / "oom" / "rank-00000" / "traceback.txt").read_text()
    assert text.startswith("Traceback (most recent call last)")
    assert "Tried to allocate 3.00 GiB" in text


def test_one_that_is_caught(record, device):
    net = Fails(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with record(model=net, optimizer=optimizer, device=device) as run:
        net.fails = True
        with pytest.raises(torch.OutOfMemoryError):
            net(torch.ones(3, 4))
        net.fails = False
        net(torch.ones(1, 4)).sum().backward()
        optimizer.step()
    assert told(run)[-6:] == [
        "oom forward 0 caught",
        "forward 0",
        "backward 0",
        "optimizer 0",
        "step 0",
        "end completed",
    ]


def test_a_search_for_the_batch_size_keeps_a_few_whole_and_a_record_each(record, device, tmp_path):
    net = Fails(device)
    with record(model=net, device=device) as run:
        for _ in range(MOST_KEPT + 4):
            net.fails = True
            with pytest.raises(torch.OutOfMemoryError):
                net(torch.ones(3, 4))
        net.fails = False
        net(torch.ones(3, 4))
    assert len({one.clock for one in ooms(run) if one.caught}) == MOST_KEPT + 4
    names = [path.name for path in (tmp_path / "run" / "oom" / "rank-00000").iterdir()]
    assert sorted(name for name in names if name.startswith("snapshot")) == [
        "snapshot-2.pickle",
        "snapshot-3.pickle",
        "snapshot-last.pickle",
        "snapshot.pickle",
    ]
    caught = {one.clock: one for one in ooms(run) if one.caught}
    assert [len(one.files) for one in caught.values()] == [5] * MOST_KEPT + [0] * 4


def test_the_last_of_many_has_its_snapshot(record, device, tmp_path):
    net = Fails(device)
    run = record(model=net, device=device)
    net.fails = True
    for _ in range(MOST_KEPT + 2):
        with pytest.raises(torch.OutOfMemoryError):
            net(torch.ones(3, 4))
    run.end(torch.OutOfMemoryError("CUDA out of memory."))
    assert "snapshot-last.pickle" in ooms(run)[-1].files
    assert json.loads((tmp_path / "run" / "oom" / "rank-00000" / "oom-last.json").read_text())["clock"] == (
        ooms(run)[-1].clock
    )


def test_without_an_observer_the_exception_is_enough(record, device, tmp_path):
    net = torch.nn.Linear(4, 2)
    run = record(model=net, device=device)

    def job():
        with run:
            net(torch.ones(3, 4))
            raise RuntimeError("CUDA error: out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        job()
    assert told(run)[1:] == ["oom forward 0", "oom forward 0", "oom forward 0", "forward 0", "end oom"]
    assert (tmp_path / "run" / "oom" / "rank-00000" / "snapshot.pickle").is_file()


def test_a_snapshot_that_cannot_be_made_is_missing_with_its_reason(record, device, tmp_path):
    def breaks(path):
        raise RuntimeError("no history")

    device.dump_snapshot = breaks
    device.summary = breaks
    with record(device=device) as run:
        device.fail(MIB)
    last = ooms(run)[-1]
    assert any(line.startswith("snapshot.pickle: RuntimeError: no history") for line in last.missing)
    assert "oom.json" in last.files
    assert "snapshot.pickle" not in last.files


def test_leaving_after_it_was_printed_is_no_completion(record, device):
    with record(device=device) as run, run.phase("backward"):
        device.fail(MIB)  # the script catches it, prints something and returns
    assert told(run)[-1] == "end oom"


def test_an_observer_in_a_thread_without_frames(record, device, tmp_path):
    with record(device=device):
        thread = threading.Thread(target=device.fail, args=(MIB,))
        thread.start()
        thread.join(timeout=60)
    text = (tmp_path / "run" / "oom" / "rank-00000" / "traceback.txt").read_text()
    assert "Thread MainThread" in text


def test_which_exceptions_are_of_memory():
    inner = torch.OutOfMemoryError("CUDA out of memory.")
    outer = ValueError("a trainer's")
    outer.__cause__ = inner
    assert out_of_memory(outer) is inner
    assert out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling")) is not None
    assert out_of_memory(RuntimeError("shapes cannot be multiplied")) is None
    assert out_of_memory(ValueError("out of memory")) is None
    assert out_of_memory(None) is None


def test_a_ledger_of_counters_that_cannot_be_true_is_none_that_lies():
    from oomph.probe.model import Counters

    counters = Counters(allocated_bytes=5, reserved_bytes=3, total_bytes=2, free_bytes=9)
    record = OomRecord(Phase.FORWARD, 0, 0.0, 0.0, "", None, counters)
    ledger = ledger_of(record)
    assert ledger["allocated_bytes"] == 5
    assert "cached_bytes" not in ledger


@pytest.mark.parametrize(
    ("last", "outcome"),
    [(SystemExit(3), "oom"), (RuntimeError("giving up"), "oom"), (SystemExit(0), "completed")],
)
def test_who_gives_up_over_a_failed_request_has_not_gone_on(record, device, last, outcome):
    net = Fails(device)
    run = record(model=net, device=device)
    net.fails = True

    def gives_up():
        try:
            net(torch.ones(3, 4))
        except torch.OutOfMemoryError:
            raise last from None

    with pytest.raises(type(last)), run:
        gives_up()
    assert told(run)[-1] == f"end {outcome}"
