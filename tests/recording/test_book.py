from __future__ import annotations

import msgspec

from oomph.evidence.run.model import PhaseRecord, StepRecord
from oomph.phases import Phase
from oomph.probe.model import Counters
from oomph.recording.book import FULL_STEPS, Book


def phase(name: str, step: int, peak: int, clock: float = 0.0, **more) -> PhaseRecord:
    return PhaseRecord(
        phase=Phase(name),
        step=step,
        time=clock,
        clock=clock,
        seconds=1.0,
        counters=Counters(peak_allocated_bytes=peak),
        **more,
    )


def step(number: int, clock: float = 0.0, **counters) -> StepRecord:
    return StepRecord(step=number, time=clock, clock=clock, seconds=1.0, counters=Counters(**counters))


def written(every: float = 10.0):
    records: list = []
    return Book(records.append, every), records


def short(records) -> list:
    return [
        (record.phase.value, record.step, record.times, record.counters.peak_allocated_bytes)
        if isinstance(record, PhaseRecord)
        else ("step", record.step)
        for record in records
    ]


def test_micro_batches_are_summed_up_before_the_optimizer_and_the_first_is_written_at_once():
    book, records = written()
    book.phase(phase("forward", 0, 10))
    assert short(records) == [("forward", 0, 1, 10)]
    book.phase(phase("backward", 0, 20))
    book.phase(phase("forward", 0, 12, batch={"x": (3,)}))
    book.phase(phase("backward", 0, 21))
    book.phase(phase("forward", 0, 11, batch={"x": (2,)}))
    book.phase(phase("backward", 0, 19))
    assert len(records) == 2
    book.phase(phase("optimizer", 0, 30))
    book.step(step(0))
    assert short(records) == [
        ("forward", 0, 1, 10),
        ("backward", 0, 1, 20),
        ("forward", 0, 2, 12),
        ("backward", 0, 2, 21),
        ("optimizer", 0, 1, 30),
        ("step", 0),
    ]
    assert records[2].batch == {"x": (3,)}
    assert records[2].seconds == 2.0


def test_after_the_first_steps_only_news_is_written():
    book, records = written(every=10.0)
    for number in range(FULL_STEPS):
        book.phase(phase("forward", number, 1_000_000))
        book.step(step(number, clock=number * 0.001))
    assert len(records) == 2 * FULL_STEPS
    records.clear()
    book.phase(phase("forward", 50, 1_000_500))  # less than a thousandth more
    book.step(step(50, clock=1.0))
    assert records == []
    book.phase(phase("forward", 51, 1_200_000))
    book.step(step(51, clock=1.1))
    assert short(records) == [("forward", 51, 1, 1_200_000), ("step", 51)]
    records.clear()
    book.step(step(52, clock=1.2, retries=1))
    assert short(records) == [("step", 52)]
    records.clear()
    book.phase(phase("forward", 53, 5))
    book.step(step(53, clock=20.0, retries=1))  # ten seconds later
    assert short(records) == [("forward", 53, 1, 5), ("step", 53)]


def test_what_was_left_out_comes_at_the_end_if_it_was_the_most():
    book, records = written(every=1e9)
    for number in range(FULL_STEPS + 10):
        # Too slowly for each to be news.
        book.phase(phase("forward", number, 1_000_000 + number))
        book.step(step(number))
    written_so_far = max(record.counters.peak_allocated_bytes for record in records)
    assert written_so_far < 1_000_059
    book.close()
    assert short(records)[-1] == ("forward", 59, 1, 1_000_059)


def test_an_exception_an_evaluation_and_a_save_are_always_written():
    book, records = written(every=1e9)
    for number in range(FULL_STEPS + 1):
        book.step(step(number))
    records.clear()
    book.phase(phase("eval", 51, 1))
    book.phase(phase("save", 51, 1))
    book.phase(phase("backward", 51, 1, raised="OutOfMemoryError"))
    assert [record.phase.value for record in records] == ["eval", "save", "backward"]


def test_a_loop_whose_steps_are_not_seen_is_written_now_and_then():
    book, records = written(every=0.0)
    for number in range(30):
        book.phase(phase("forward", 0, number, clock=float(number)))
    assert [one.times for one in records] == [1, 10, 10]
    assert [one.counters.peak_allocated_bytes for one in records] == [0, 10, 20]


def test_every_zero_writes_all():
    book, records = written(every=0)
    for number in range(FULL_STEPS * 2):
        book.phase(phase("forward", number, 1))
        book.step(step(number, clock=float(number)))
    assert len(records) == FULL_STEPS * 4


def test_what_is_held_back_is_written_when_something_goes_wrong():
    book, records = written()
    book.phase(phase("forward", 0, 1))
    book.phase(phase("forward", 0, 2))
    book.flush()
    assert [msgspec.structs.asdict(record)["times"] for record in records] == [1, 1]
