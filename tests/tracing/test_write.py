"""Written traces, judged by PyTorch's own viewer and by oomph's reader of real snapshots."""

from __future__ import annotations

import io
import pickletools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oomph.errors import UsageError
from oomph.evidence.snapshot import allocator_settings, read
from oomph.memory.categories import Category
from oomph.tracing.write import content, window, write
from oomph.units import MIB
from tests.tracing.made import SCRIPT, Maker, out_of_memory, training

_VIEWER = """
import pickle, sys
from torch.cuda import _memory_viz as viz
with open(sys.argv[1], "rb") as file:
    data = pickle.load(file)
print(viz.segsum(data))
print(viz.trace(data))
print(len(viz.trace_plot(data)), len(viz.segment_plot(data)))
"""


def viewed(path: Path) -> str:
    """What torch.cuda._memory_viz says of a file."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _VIEWER, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pytorchs_viewer_opens_a_trace(tmp_path: Path) -> None:
    maker = training(Maker())
    path = tmp_path / "trace.pickle"
    write(maker.trace(), path)
    told = viewed(path)
    # 100 MiB of weights and 200 MiB of states are left.
    assert "total_allocated: 300.0MiB" in told
    assert f"{len(maker.events)} entries" in told
    # Two weights, three steps of two activations, a temporary and two gradients, four states.
    assert sum(1 for line in told.splitlines() if ":" in line and " = " in line and line.endswith("B]")) == 21


def test_pytorchs_viewer_shows_the_request_that_failed(tmp_path: Path) -> None:
    # Weights 100 MiB and two activations: the second does not fit into 250 MiB.
    path = tmp_path / "trace.pickle"
    write(out_of_memory(Maker(capacity=250 * MIB)), path)
    assert "raise OutOfMemoryError # 100.0MiB requested, 50.0MiB free in CUDA" in viewed(path)


def test_the_reader_of_real_snapshots_gets_the_same_timeline(tmp_path: Path) -> None:
    maker = training(Maker(conf="expandable_segments:True,max_split_size_mb:64"))
    trace = maker.trace()
    path = tmp_path / "trace.pickle"
    write(trace, path)
    snapshot = read(path)
    before, after = trace.devices[0].timeline, snapshot.devices[0].timeline
    for column in ("kind", "address", "size_bytes", "time_us", "stream"):
        assert np.array_equal(getattr(before, column), getattr(after, column))
    assert [one.key() for one in snapshot.devices[0].segments] == [
        one.key() for one in maker.allocator.layout()
    ]
    settings = allocator_settings(snapshot)
    assert settings.expandable_segments
    assert settings.max_split_size_bytes == 64 * MIB


def test_blocks_that_are_left_have_the_stack_of_their_request() -> None:
    held = [
        block
        for segment in content(training(Maker()).trace())["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    ]
    # Two weights from line 20, four states from line 50.
    assert sorted(block["frames"][1]["line"] for block in held) == [20, 20, 50, 50, 50, 50]
    assert {block["frames"][1]["filename"] for block in held} == {SCRIPT}


def test_a_trace_without_stacks_has_empty_ones(tmp_path: Path) -> None:
    path = tmp_path / "trace.pickle"
    write(training(Maker(stacks=False)).trace(), path)
    viewed(path)


def test_nothing_but_plain_data_is_written(tmp_path: Path) -> None:
    path = tmp_path / "trace.pickle"
    write(training(Maker()).trace(windows={0: ((0, 5),)}, unruled={"aten.foo": (1, 2)}), path)
    names = {opcode.name for opcode, _, _ in pickletools.genops(io.BytesIO(path.read_bytes()))}
    assert not names & {"GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "NEWOBJ"}


def test_events_that_name_no_pool_are_of_the_default_one() -> None:
    trace = training(Maker()).trace()
    device = trace.devices[0]
    nameless = replace(device.timeline, pool=device.timeline.pool - 1, pools=())
    events = content(replace(trace, devices=(replace(device, timeline=nameless),)))["device_traces"][0]
    assert {event["pool_id"] for event in events} == {(0, 0)}


def test_columns_are_runs() -> None:
    maker = Maker()
    maker.alloc("a", MIB, Category.PARAMETERS)
    maker.step = 1
    maker.free("a")
    columns = content(maker.trace())["oomph"]["devices"][0]
    # A segment, the block; the two frees.
    assert columns["step"] == [0, 2, 1, 2]
    assert columns["category"] == [0]


def test_the_last_window_that_the_script_recorded() -> None:
    maker = training(Maker())
    trace = maker.trace(windows={0: ((0, 3), (4, 10))})
    part = window(trace, 0)
    assert part is not None
    assert part.size_bytes.tolist() == [size for _, _, size in maker.events[4:10]]
    assert window(trace, 1) is None
    assert window(maker.trace(), 0) is None


def test_a_path_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        write(training(Maker()).trace(), tmp_path / "nowhere" / "trace.pickle")
