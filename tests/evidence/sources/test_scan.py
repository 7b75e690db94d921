"""A large input must show what a small one shows. Limits are small here so that the files can be."""

from __future__ import annotations

import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.evidence.sources import Limits
from oomph.evidence.sources.chunks import chunks
from oomph.evidence.sources.limits import limits_for
from oomph.evidence.sources.merge import Piece, choose
from oomph.evidence.sources.scan import scan
from oomph.evidence.sources.triggers import TRIGGERS

KIB = 1 << 10
SMALL = Limits(whole=0, head=4 * KIB, tail=8 * KIB, samples=16, sample=512, shrink=8, chunk=128 * KIB)

MESSAGE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB. GPU 6 has a total capacity of 79.11 GiB "
    "of which 958.00 MiB is free. Including non-PyTorch memory, this process has 78.17 GiB memory in use. Of the "
    "allocated memory 75.42 GiB is allocated by PyTorch, and 911.00 MiB is reserved by PyTorch but unallocated."
)


def progress(count: int, start: int = 0) -> list[str]:
    return [
        f"2025-03-04 09:00:00,000 [rank{step % 8}] INFO step {step} loss 1.23456 mem_alloc 75.03GiB tok/s 20800"
        for step in range(start, start + count)
    ]


def traceback(rank: int, depth: int = 30) -> list[str]:
    frames = []
    for number in range(depth):
        frames += [
            f'[rank{rank}]:   File "/w/net.py", line {number}, in forward',
            f"[rank{rank}]:     x = f(x)",
        ]
    return [f"[rank{rank}]: Traceback (most recent call last):", *frames, f"[rank{rank}]: {MESSAGE}"]


def kept(lines: list[str], limits: Limits = SMALL, *, ahead: bool = False) -> dict[int, str]:
    """Line number -> text of every line that a scan keeps; whole lines are checked against the input."""
    data = ("\n".join(lines) + "\n").encode()
    scanned = scan(io.BytesIO(data), limits, ahead=ahead)
    assert scanned.size == len(data)
    found: dict[int, str] = {}
    for passage in scanned.passages:
        for offset, text in enumerate(passage.text.decode().split("\n")):
            assert passage.line + offset not in found
            found[passage.line + offset] = text
    assert all(lines[number - 1] == text for number, text in found.items())
    return found


@pytest.mark.parametrize("ahead", [False, True])
def test_a_failure_is_kept_with_its_traceback_and_its_line_numbers(ahead):
    before, failure = progress(8000), traceback(6)
    lines = [*before, *failure, *progress(3000)]
    found = kept(lines, ahead=ahead)
    assert [found.get(len(before) + 1 + i) for i in range(len(failure))] == failure
    assert len(found) < len(lines) / 4


def test_beginning_end_and_samples_are_kept():
    lines = progress(20_000)
    found = kept(lines)
    assert found[1] == lines[0]
    assert found[20_000] == lines[-1]
    # 16 samples at most, 8 at least after the last thinning, spread over the middle.
    middle = [number for number in found if 2000 < number < 18_000]
    tenths = {number // 2000 for number in middle}
    assert len(tenths) == 8
    assert len(middle) < 16 * 8


def test_interleaved_tracebacks_of_many_ranks_are_kept_whole():
    parts = [traceback(rank) for rank in range(24)]
    mixed = [part[row] for row in range(len(parts[0])) for part in parts]
    lines = [*progress(5000), *mixed, *progress(5000)]
    found = kept(lines, limits_for(1))
    assert [found.get(5001 + i) for i in range(len(mixed))] == mixed


def test_a_flood_after_the_failure_does_not_drown_it():
    flood = [
        f"[rank{i % 7}]:[E304 11:00:00 ProcessGroupNCCL.cpp:685] [Rank {i % 7}] Watchdog caught collective operation "
        f"timeout: WorkNCCL(SeqNum={i}) ran for 600000 milliseconds before timing out."
        for i in range(20_000)
    ]
    table = [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "Root Cause",
        "exitcode : 1",
    ]
    lines = [*progress(3000), *traceback(6), *flood, *table]
    found = kept(lines)
    assert MESSAGE in found[3000 + len(traceback(6))]
    assert found[len(lines)] == table[-1]
    assert flood[0] in found.values()
    assert len(found) < 2500


def test_the_first_and_the_last_of_many_failures_are_kept():
    """Failures that are caught and retried, thousands of them."""
    lines = []
    for attempt in range(3000):
        lines += [*progress(30), f"attempt {attempt} failed: {MESSAGE}"]
    data = ("\n".join(lines) + "\n").encode()
    scanned = scan(io.BytesIO(data), SMALL)
    text = b"\n".join(passage.text for passage in scanned.passages).decode()
    assert "attempt 0 failed" in text
    assert "attempt 2999 failed" in text
    # "ut of memory", "OutOfMemory" and "ried to allocate" in each.
    assert scanned.hits["failure"] == 3 * 3000
    assert scanned.left_out["failure"] > 0
    assert len(text) < 1 << 20


def test_what_is_kept_stays_within_the_budget():
    lines = []
    for attempt in range(500):
        lines += [*progress(40), *traceback(attempt % 8)]
    data = ("\n".join(lines) + "\n").encode()
    scanned = scan(io.BytesIO(data), Limits(whole=0, kept=100 * KIB, shrink=8, chunk=128 * KIB))
    assert sum(len(passage.text) for passage in scanned.passages) <= 100 * KIB
    first = next(number for number, line in enumerate(lines, 1) if "out of memory" in line)
    texts = {p.line + i: t for p in scanned.passages for i, t in enumerate(p.text.decode().split("\n"))}
    assert texts[first] == lines[first - 1]


@pytest.mark.parametrize("glue", ["x", "é", "\0"])
def test_one_endless_line(glue):
    text = glue * 700_000 + " " + MESSAGE + " " + glue * 700_000
    scanned = scan(io.BytesIO(text.encode()), SMALL)
    assert {passage.line for passage in scanned.passages} == {1}
    assert any(MESSAGE.encode() in passage.text for passage in scanned.passages)
    assert sum(len(passage.text) for passage in scanned.passages) < 200 * KIB
    for passage in scanned.passages:
        passage.text.decode()  # not cut inside a character


def test_a_progress_bar_without_line_ends():
    bar = "".join(f"\r{i % 100:3d}%|####      | {i}/90000 [00:10<00:20, 3.1it/s]" for i in range(30_000))
    lines = ["start", bar + MESSAGE, *progress(1000)]
    data = "\n".join(lines).encode()
    scanned = scan(io.BytesIO(data), SMALL)
    [hit] = [passage for passage in scanned.passages if MESSAGE.encode() in passage.text]
    assert hit.line + hit.text[: hit.text.index(MESSAGE.encode())].count(b"\n") == 2
    assert scanned.passages[-1].line > 900


def test_a_literal_on_every_line_stops_being_searched_for():
    lines = [f"saved checkpoint {i}" for i in range(60_000)]
    scanned = scan(io.BytesIO("\n".join([*lines, MESSAGE]).encode()), SMALL)
    # 20,000 are enough (the rest of the chunk in which they end comes on top).
    assert 20_000 <= scanned.hits["phase"] < 40_000
    assert scanned.hits["failure"] == 3


@pytest.mark.parametrize("gap", range(0, 3000, 97))
def test_a_message_at_any_place_of_a_chunk_is_whole(gap):
    limits = Limits(whole=0, head=0, tail=0, samples=0, shrink=8, chunk=32 * KIB)
    lines = ["." * 99] * 655 + ["." * gap, MESSAGE, "after"] + ["." * 99] * 400
    assert kept(lines, limits)[657] == MESSAGE


@given(
    st.lists(
        st.sampled_from(["", "a", "b" * 300, "\r\r", "exitcode: -9", "Watchdog", MESSAGE, "c" * 5000]),
        max_size=400,
    ),
    st.sampled_from([4096, 5000, 40_000]),
)
def test_scanning_finds_the_lines_that_reading_finds(lines, chunk):
    limits = Limits(whole=0, head=100, tail=100, samples=3, sample=60, shrink=64, chunk=chunk)
    data = "\n".join(lines).encode()
    scanned = scan(io.BytesIO(data), limits)
    failures = [number for number, line in enumerate(lines, 1) if line == MESSAGE]
    seen = {}
    for passage in scanned.passages:
        for offset, text in enumerate(passage.text.decode().split("\n")):
            seen[passage.line + offset] = text
            assert text in lines[passage.line + offset - 1]
    for number in (*failures[:1], *failures[-1:]):
        assert seen[number] == MESSAGE


def test_chunks_are_the_text():
    randomly = random.Random(5)
    data = b"".join(
        bytes(randomly.choice(b"ab\n\xc3\xa9") for _ in range(randomly.randrange(2000))) for _ in range(300)
    )
    data += b"z" * 300_000
    whole = bytearray()
    line = 1
    for chunk in chunks(io.BytesIO(data), 70_000):
        assert chunk.base == len(whole)
        chunk.counted()
        assert chunk.line_at(chunk.base) == line
        middle = chunk.base + (chunk.end - chunk.base) // 2
        assert chunk.line_at(middle) == 1 + data.count(b"\n", 0, middle)
        whole += chunk.view
        line = chunk.next_line
    assert bytes(whole) == data


def test_pieces_are_merged_and_cut_at_line_ends():
    data = b"one\ntwo\nthree\nfour\nfive\nsix\n"
    pieces = [
        Piece(5, 2, data[5:16], 1, 8, 8),  # "wo\nthree\nfo"
        Piece(10, 3, data[10:21], 2, 14, 14),  # "ree\nfour\nfi"
    ]
    [passage] = choose(pieces, 1000, len(data))
    assert (passage.line, passage.start, passage.text) == (3, 8, b"three\nfour")


def test_the_literals_fit_the_fast_search():
    # Beyond 64 patterns, or below 4 bytes, the packed search is not used or slow.
    assert len(TRIGGERS) <= 64
    assert min(len(literal) for literal, _ in TRIGGERS) >= 4
    assert max(len(literal) for literal, _ in TRIGGERS) <= 128
    literals = [literal for literal, _ in TRIGGERS]
    assert len(set(literals)) == len(literals)
