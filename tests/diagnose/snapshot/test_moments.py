"""Which moment of a trace is looked at."""

from __future__ import annotations

from typing import Any

import pytest

from oomph.diagnose.snapshot.build import analyse, report_of
from oomph.errors import UsageError
from oomph.units import MIB
from tests.evidence.snapshot.build import BASE, SETTINGS, block, event, read, segment, snapshot


def oom(time: int) -> dict[str, Any]:
    return {
        "action": "oom",
        "device_free": 0,
        "size": 512 * MIB,
        "stream": 0,
        "time_us": time,
        "frames": [],
    }


def alloc(place: int, time: int) -> dict[str, Any]:
    return event("alloc", BASE + place * 2 * MIB, 2 * MIB, time_us=time)


def free(place: int, time: int) -> list[dict[str, Any]]:
    address = BASE + place * 2 * MIB
    return [
        event("free_requested", address, 2 * MIB, time_us=time),
        event("free_completed", address, 2 * MIB, time_us=time),
    ]


def content(events: list[dict[str, Any]], in_use: int) -> Any:
    blocks = [
        block(BASE + place * 2 * MIB, 2 * MIB, "active_allocated" if place < in_use else "inactive")
        for place in range(10)
    ]
    return read(
        snapshot([segment(BASE, blocks, segment_type="large")], [events], allocator_settings=SETTINGS)
    )


#: Peak at event 1 (two blocks); one second per event.
EVENTS = [alloc(0, 0), alloc(1, 1_000_000), *free(1, 2_000_000), alloc(1, 3_000_000), *free(1, 4_000_000)]


def moment(at: str | None, events: list[dict[str, Any]] = EVENTS, in_use: int = 1) -> tuple[str, int]:
    [analysis] = analyse(content(events, in_use), at)
    return analysis.moment.kind, analysis.moment.position


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (None, ("peak allocated", 1)),
        ("peak-allocated", ("peak allocated", 1)),
        ("start", ("asked for", -1)),
        ("end", ("end", 6)),
        ("3", ("asked for", 3)),
        ("2.5s", ("asked for", 3)),
        ("0s", ("asked for", 0)),
    ],
)
def test_the_moment_asked_for(at: str | None, expected: tuple[str, int]):
    assert moment(at) == expected


@pytest.mark.parametrize(
    ("at", "part"),
    [
        ("7", "events 0 to 6"),
        ("99999999999999999999999", "is no moment"),
        ("4.1s", "the trace is 4.000 s long"),
        ("oom", "no request failed"),
        ("retry", "never gave memory back"),
        ("soon", "is no moment"),
        ("-1", "is no moment"),
    ],
)
def test_a_moment_that_there_is_not(at: str, part: str):
    with pytest.raises(UsageError, match=part):
        moment(at)


def test_the_last_failure_is_the_moment():
    events = [alloc(0, 0), oom(1), alloc(1, 2), oom(3)]
    assert moment(None, events, 2) == ("oom", 3)


def test_failures_while_an_exception_goes_up_are_one():
    events = [alloc(0, 0), oom(1), oom(2), oom(3)]
    assert moment(None, events) == ("oom", 1)


def test_a_failure_after_which_much_is_allocated_was_caught():
    events = [oom(0), *(alloc(place, place + 1) for place in range(10))]
    report = report_of(content(events, 10))
    failure = report.devices[0].failure
    assert failure is not None
    assert failure.caught
    assert report.exit_code == 0
    died = report_of(content(events[:3], 2))
    assert died.exit_code == 1


def test_a_device_that_is_not_there():
    with pytest.raises(UsageError, match="devices: 0"):
        report_of(content(EVENTS, 1), device=3)


def test_without_events_the_end_is_all_there_is():
    report = report_of(content([], 4))
    device = report.devices[0]
    assert device.moment.kind == "end"
    assert device.ledger.allocated_bytes == 8 * MIB
    assert sum(share.bytes for share in device.shares) == 8 * MIB
    assert device.growth is None
    assert any("no events" in note for note in device.notes)


def test_the_peak_is_the_same_whatever_moment_is_asked_for():
    """19.5 MiB out of a hole of 20 MiB: a rest of less than 1 MiB is not split off (CUDACachingAllocator.cpp,
    should_split), and counts as allocated."""
    size = 39 * MIB // 2
    events = [
        event("alloc", BASE, size, time_us=1),
        event("free_requested", BASE, size, time_us=2),
        event("free_completed", BASE, size, time_us=2),
        event("alloc", BASE, 2 * MIB, time_us=3),
    ]
    blocks = [block(BASE, 2 * MIB, "active_allocated"), block(BASE + 2 * MIB, 18 * MIB, "inactive")]
    whole = segment(BASE, blocks, segment_type="large")
    read_one = read(snapshot([whole], [events], allocator_settings=SETTINGS))
    peaks = {
        report_of(read_one, at=at).devices[0].peak_allocated_bytes for at in (None, "0", "1", "start", "end")
    }
    assert peaks == {20 * MIB}


def test_the_first_of_failures_between_which_nothing_was_allocated():
    alone = [oom(0), oom(1), oom(2)]
    assert moment(None, alone, in_use=0) == ("oom", 0)
    assert moment(None, [oom(0), alloc(0, 1), oom(2), oom(3)], in_use=1) == ("oom", 2)
    assert moment(None, [oom(0), alloc(0, 1), oom(2), alloc(1, 3)], in_use=2) == ("oom", 2)


@pytest.mark.parametrize("times", [(5_000_000, 4_000_000, 3_000_000), (5_000_000, -1, -1), (0, 0, 0)])
def test_times_that_are_missing_or_go_backwards(times: tuple[int, int, int]):
    events = [alloc(place, time) for place, time in enumerate(times)]
    assert moment("0s", events, in_use=3) == ("asked for", 2)
    with pytest.raises(UsageError, match=r"the trace is 0\.000 s long"):
        moment("0.1s", events, in_use=3)
    [analysis] = analyse(content(events, 3), "end")
    assert analysis.moment.after_us in (-1, 0)


def test_a_trace_that_gives_back_more_than_there_was():
    far = BASE + (1 << 40)
    events = [
        event("segment_free", far, 64 * MIB, time_us=0),
        event("segment_free", far, 64 * MIB, time_us=1),
        alloc(0, 2),
        event("segment_free", far + 64 * MIB, 2 * MIB, time_us=3),
        event("segment_alloc", far + 96 * MIB, 2 * MIB, time_us=4),
        event("alloc", far + 96 * MIB, 2 * MIB, time_us=5),
    ]
    [device] = report_of(content(events, 1)).devices
    assert any("gives back more memory than there was" in note for note in device.notes)
    # Before the second release 20 + 64 + 2 - 64 - 64 < 0 MiB were reserved: that bounds nothing.
    assert [retry.bound_bytes for retry in device.retries] == [None]
    assert "the device had less than" not in device.retries[0].says
