"""A small recorded job whose every number is in this file, written as PyTorch writes it, and its page.

event  what                                      allocated  reserved (MiB)
0      segment of 64 MiB                                 0     64
1      64 MiB at WEIGHTS                                64     64
2      segment of 40 MiB                                64    104
3      40 MiB at the hostile line                      104    104
4, 5   given back                                       64    104
6      30 MiB at the hostile line, in its place         94    104
7      request of 100 MiB fails; 50 MiB free            94    104
"""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oomph.diagnose.snapshot.build import analyse, report_of
from oomph.evidence.snapshot import read
from oomph.report.options import ReportOptions
from oomph.report.snapshot.html import render_html

MIB = 1 << 20
FIRST = 0x7F0000000000
SECOND = 0x7F0010000000

#: Names that would do something in a page that does not escape them.
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=2>"
HOSTILE_FILE = '/home/marie/"><svg onload=window.hacked=3>\u2028/model.py'


def frame(function: str, file: str, line: int) -> dict[str, Any]:
    return {"name": function, "filename": file, "line": line}


MAIN = frame("main", "/home/marie/job/train.py", 5)
NATIVE = frame("at::empty_cuda(c10::IntArrayRef)", "??", 0)
WEIGHTS = [NATIVE, frame("load_weights", "/home/marie/job/train.py", 10), MAIN]
WORK = [NATIVE, frame(HOSTILE, HOSTILE_FILE, 20), MAIN]


def event(action: str, address: int, mib: int, time_us: int, frames: Sequence[object] = ()) -> dict[str, Any]:
    return {
        "action": action,
        "addr": address,
        "size": mib * MIB,
        "stream": 0,
        "time_us": 1_700_000_000_000_000 + time_us,
        "frames": list(frames),
    }


def block(address: int, mib: int, state: str, frames: Sequence[object] = ()) -> dict[str, Any]:
    return {
        "address": address,
        "size": mib * MIB,
        "requested_size": mib * MIB,
        "state": state,
        "frames": list(frames),
    }


def segment(address: int, mib: int, blocks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    active = sum(one["size"] for one in blocks if one["state"] == "active_allocated")
    return {
        "device": 0,
        "address": address,
        "total_size": mib * MIB,
        "allocated_size": active,
        "active_size": active,
        "requested_size": active,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": list(blocks),
    }


def job() -> dict[str, Any]:
    """The job of the table above."""
    oom = event("oom", 0, 100, 9000, WORK)
    del oom["addr"]
    oom["device_free"] = 50 * MIB
    trace = [
        event("segment_alloc", FIRST, 64, 0, WEIGHTS),
        event("alloc", FIRST, 64, 10, WEIGHTS),
        event("segment_alloc", SECOND, 40, 1000, WORK),
        event("alloc", SECOND, 40, 1010, WORK),
        event("free_requested", SECOND, 40, 2000, WORK),
        event("free_completed", SECOND, 40, 2001, WORK),
        event("alloc", SECOND, 30, 3000, WORK),
        oom,
    ]
    segments = [
        segment(FIRST, 64, [block(FIRST, 64, "active_allocated", WEIGHTS)]),
        segment(
            SECOND,
            40,
            [block(SECOND, 30, "active_allocated", WORK), block(SECOND + 30 * MIB, 10, "inactive")],
        ),
    ]
    return {
        "segments": segments,
        "device_traces": [trace],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"},
    }


def without_history() -> dict[str, Any]:
    return {**job(), "device_traces": [[]]}


def two_devices() -> dict[str, Any]:
    """The job on GPU 0; on GPU 1 one segment with one block, and no failure."""
    both = job()
    other = segment(
        FIRST, 20, [block(FIRST, 12, "active_allocated", WEIGHTS), block(FIRST + 12 * MIB, 8, "inactive")]
    )
    other["device"] = 1
    both["segments"].append(other)
    both["device_traces"].append(
        [event("segment_alloc", FIRST, 20, 0, WEIGHTS), event("alloc", FIRST, 12, 5, WEIGHTS)]
    )
    return both


def long_job(events: int) -> dict[str, Any]:
    """The job's weights, then a block of 40 MiB that comes and goes; once, in the middle, 39 MiB live beside it for a
    single event."""
    third = SECOND + 0x10000000
    made = job()
    trace = [*made["device_traces"][0][:3], event("segment_alloc", third, 40, 1000, WORK)]

    def take(action: str, address: int, mib: int) -> None:
        trace.append(event(action, address, mib, 1010 + len(trace), WORK))

    is_once = False
    while len(trace) < events:
        take("alloc", SECOND, 40)
        if not is_once and len(trace) > events // 2:
            is_once = True
            take("alloc", third, 39)
            take("free_requested", third, 39)
            take("free_completed", third, 39)
        take("free_requested", SECOND, 40)
        take("free_completed", SECOND, 40)
    made["segments"][1]["blocks"] = [block(SECOND, 40, "inactive")]
    made["segments"].append(segment(third, 40, [block(third, 40, "inactive")]))
    made["device_traces"] = [trace]
    return made


def page_of(
    snapshot: dict[str, Any],
    folder: Path,
    name: str = "job.pickle",
    options: ReportOptions | None = None,
    at: str | None = None,
) -> str:
    """The page of a snapshot that is written into `folder` and read from there."""
    path = folder / name
    path.write_bytes(pickle.dumps(snapshot))
    loaded = read(path)
    analyses = analyse(loaded, at)
    return render_html(report_of(loaded, analyses=analyses), analyses, options or ReportOptions())


def data_of(page: str) -> dict[str, Any]:
    """What the page's script draws."""
    packed = re.search(r'<script type="text/plain" id="data">([^<]*)</script>', page)
    assert packed is not None
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    return data
