"""No text makes a parser raise, and junk costs linear time."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.evidence.model import Document, Line
from oomph.evidence.series import parse

_PIECES = st.sampled_from(
    [
        "mem ", "memory: ", "allocated ", "reserved=", "max ", "step ", "step=", "loss ", "GPU 0 ", "cuda:", "rank",
        "61.3", "GiB", " GB", "MB", "/", "of ", "(", ")", "[", "]", "|", ",", "17179869184.00", "9" * 40, "1e99", "-",
        "MA ", "Max_MA ", "memory (MB) | ", "| allocated: ", "[Rank 3] ", "(after 1 iterations) ", "gb_free=",
        "total memory = ", "memory/max_reserved(GiB): ", "peak_memory_alloc:", "before_init_mem_gpu': ", "23.4G  ",
        "٣", "İ", "\x00", "'", '"', " ", "\t", "data_time: ", "max mem: ",
        "on_train_batch_end/allocated_bytes.all.peak: ",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(_PIECES, max_size=14).map("".join), max_size=5))
def test_pieces_of_real_lines_in_any_order(lines):
    for sample in parse(Document("x", [Line(text, number) for number, text in enumerate(lines, 1)])):
        assert sample.value.bytes >= 0
        assert sample.value.slack_bytes >= 0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(max_size=200), max_size=4))
def test_any_text(lines):
    parse(Document("x", [Line(text, number) for number, text in enumerate(lines, 1)]))


def test_a_megabyte_on_one_line():
    lines = [
        Line(junk * (1_000_000 // len(junk)), 1)
        for junk in ("mem 1 ", "allocated ", "G  1", "9", "| ", "mem((")
    ]
    start = time.perf_counter()
    parse(Document("x", lines))
    assert time.perf_counter() - start < 5


def test_lines_without_figures_are_cheap():
    text = "2025-03-04 09:00:40 worker 3 of 12 finished its shard in 0.33 seconds, next one queued"
    document = Document("x", [Line(text, number) for number in range(100_000)])
    start = time.perf_counter()
    assert parse(document) == []
    assert time.perf_counter() - start < 2  # 50,000 lines a second, far below what it takes
