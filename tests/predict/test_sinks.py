"""What a composed step allocates, added up and as events."""

from __future__ import annotations

import pytest

from oomph.memory.allocator.settings import AllocatorSettings
from oomph.memory.categories import CATEGORIES, Category
from oomph.memory.replay.orders import requests_of_columns, reserved_orders
from oomph.phases import Phase
from oomph.predict.event_sink import EventSink
from oomph.predict.peak_sink import PeakSink
from oomph.predict.sink import Template

WEIGHT, SAVED, SCRATCH = (
    (Category.PARAMETERS, "weight"),
    (Category.ACTIVATIONS, "saved"),
    (Category.TEMPORARIES, "scratch"),
)
#: Allocates scratch and saved, frees what it was handed, allocates scratch again, frees both scratches.
TEMPLATE = Template(
    events=(1, 2, ~0, 3, ~1, ~3),
    sizes=(1024, 512, 2048, 4096),
    labels=(SAVED, SCRATCH, SAVED, SCRATCH),
    first_own=1,
    peak=512 + 2048 - 1024 + 4096,
    net=2048 - 1024,
    peak_event=3,
)


def test_the_peak_of_a_phase_is_that_of_max_memory_allocated_since_it_began():
    sink = PeakSink()
    sink.phase(Phase.FORWARD, "block 0")
    kept = sink.alloc(1000, *WEIGHT)  # 1024
    passing = sink.alloc(1, *SCRATCH)  # 512
    sink.free(passing)
    sink.phase(Phase.BACKWARD)
    sink.alloc(512, *SAVED)
    peaks = sink.peaks()
    assert peaks[Phase.FORWARD].bytes == 1024 + 512
    assert peaks[Phase.FORWARD].where == "block 0"
    assert dict(peaks[Phase.FORWARD].parts) == {WEIGHT: 1024, SCRATCH: 512}
    assert peaks[Phase.BACKWARD].bytes == 1024 + 512
    assert dict(peaks[Phase.BACKWARD].parts) == {WEIGHT: 1024, SAVED: 512}
    sink.free(kept)
    assert sink.current_bytes == 512


def test_a_phase_that_is_entered_again_keeps_its_highest_peak_and_its_place():
    sink = PeakSink()
    for size, where in ((4096, "first"), (2048, "second"), (8192, "third"), (512, "fourth")):
        sink.phase(Phase.FORWARD, where)
        sink.free(sink.alloc(size, *SCRATCH))
        sink.phase(Phase.BACKWARD)
    peak = sink.peaks()[Phase.FORWARD]
    assert (peak.bytes, peak.where) == (8192, "third")
    assert sink.peaks()[Phase.BACKWARD].bytes == 0


def test_a_template_counts_as_its_events_do():
    sink = PeakSink()
    sink.phase(Phase.FORWARD, "there")
    weight, saved = sink.alloc(512, *WEIGHT), sink.alloc(1024, *SAVED)
    handles = sink.play(TEMPLATE, [saved])
    assert [handle >= 0 for handle in handles] == [False, False, True, False]
    peak = sink.peaks()[Phase.FORWARD]
    assert peak.bytes == 512 + 512 + 2048 + 4096
    assert dict(peak.parts) == {WEIGHT: 512, SAVED: 2048, SCRATCH: 512 + 4096}
    assert sink.current_parts == {WEIGHT: 512, SAVED: 2048}
    sink.free(handles[2])
    sink.free(weight)
    assert sink.current_bytes == 0
    with pytest.raises(ValueError, match="not alive"):
        sink.free(saved)


def test_a_peak_before_a_template_is_not_lost_when_the_template_stays_below_it():
    sink = PeakSink()
    sink.phase(Phase.FORWARD)
    saved = sink.alloc(1024, *SAVED)
    large = sink.alloc(1 << 20, *SCRATCH)
    sink.free(large)
    sink.play(TEMPLATE, [saved])
    assert dict(sink.peaks()[Phase.FORWARD].parts) == {SAVED: 1024, SCRATCH: 1 << 20}


def test_without_parts_the_bytes_are_the_same():
    sink = PeakSink(compose=False)
    sink.phase(Phase.FORWARD)
    sink.play(TEMPLATE, [sink.alloc(1024, *SAVED)])
    assert sink.peaks()[Phase.FORWARD].bytes == 512 + 2048 + 4096
    assert not sink.peaks()[Phase.FORWARD].parts


@pytest.mark.parametrize("sink", [PeakSink(), EventSink()])
def test_what_cannot_be_is_refused(sink):
    block = sink.alloc(1024, *SAVED)
    sink.free(block)
    with pytest.raises(ValueError, match="not alive"):
        sink.free(block)
    with pytest.raises(ValueError, match="takes 1 blocks and was given 0"):
        sink.play(TEMPLATE)
    with pytest.raises(ValueError, match="1024 bytes and was handed 2048"):
        sink.play(TEMPLATE, [sink.alloc(2048, *SAVED)])
    twice = Template((~0, ~0), (512,), (SAVED,), 1, 0, -1024, 0)
    with pytest.raises(ValueError, match="which is not alive"):
        sink.play(twice, [sink.alloc(512, *SAVED)])
    wrong = Template((0,), (512,), (SAVED,), 0, 1024, 512, 0)
    with pytest.raises(ValueError, match="its events give 512 and 512"):
        sink.play(wrong)


def test_events_of_a_template_name_blocks_of_the_whole():
    sink = EventSink()
    sink.phase(Phase.FORWARD, "block 0")
    buffer = sink.alloc(1024, *SAVED, stream=7)
    empty = sink.alloc(0, *SCRATCH)
    handles = sink.play(TEMPLATE, [buffer])
    sink.free(empty)
    sink.phase(Phase.BACKWARD)
    sink.free(handles[2])
    own = [handles[2] - 1, handles[2], handles[2] + 1]
    assert sink.blocks == [buffer, own[0], own[1], buffer, own[2], own[0], own[2], own[1]]
    assert sink.frees == [0, 0, 0, 1, 0, 1, 1, 1]
    assert sink.sizes == [1024, 512, 2048, 1024, 4096, 512, 4096, 2048]
    assert sink.streams == [7, 0, 0, 7, 0, 0, 0, 0]
    assert [tuple(Phase)[phase] for phase in sink.phases] == [Phase.FORWARD] * 7 + [Phase.BACKWARD]
    assert CATEGORIES[sink.categories[4]] is Category.TEMPORARIES
    assert sink.places == [(0, "block 0")]


def test_the_allocator_takes_the_columns_as_they_are():
    sink, added = EventSink(), PeakSink()
    for each in (sink, added):
        each.phase(Phase.FORWARD)
        for _ in range(3):
            each.play(TEMPLATE, [each.alloc(1024, *SAVED)])
    requests = requests_of_columns(sink.frees, sink.blocks, sink.sizes, sink.streams)
    played = reserved_orders(requests, AllocatorSettings(), orders=1)
    assert played.allocated == (added.peaks()[Phase.FORWARD].bytes,)
    assert played.values == (2 << 20,)  # all of it lies in one segment of small blocks
