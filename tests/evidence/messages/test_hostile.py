"""Input of any kind: no exception, no long wait, no number that is not in the text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evidence.messages.read import numbers, read
from tests.evidence.messages.samples import ALL

MEGABYTE = 1_000_000

JUNK = {
    "digits": "1" * MEGABYTE,
    "digits and points": "1." * (MEGABYTE // 2),
    "blanks": " " * MEGABYTE,
    "requests": "Tried to allocate " * (MEGABYTE // 18),
    "openings": "CUDA out of memory. " * (MEGABYTE // 20),
    "openings and requests": "CUDA out of memory. Tried to allocate " * (MEGABYTE // 38),
    "sizes": "2.92 GiB " * (MEGABYTE // 9),
    "sizes without units": "CUDA out of memory. Tried to allocate " + "2.92 " * (MEGABYTE // 5),
    "processes": "CUDA out of memory. Tried to allocate 2.92 GiB. "
    + "Process 12345 has 1.00 GiB memory in use. " * (MEGABYTE // 42),
    "pids": "Process " + "9" * MEGABYTE + " has 1.00 GiB memory in use.",
    "parentheses": "CUDA out of memory. Tried to allocate 2.92 GiB (GPU 0; " + "(" * MEGABYTE,
    "semicolons": "CUDA out of memory. Tried to allocate 2.92 GiB (GPU 0" + "; " * (MEGABYTE // 2),
    "signals": "failed (exitcode: " * (MEGABYTE // 18),
    "quotes": "NCCL WARN Cuda failure '" * (MEGABYTE // 24),
    "asserts": "NVML_SUCCESS == r INTERNAL ASSERT FAILED at " * (MEGABYTE // 44),
    "MPS": "MPS backend out of memory (MPS allocated: " * (MEGABYTE // 42),
    "async": "Allocation on device 0 would exceed allowed memory. (out of memory)\n" * (MEGABYTE // 68),
    "bare": "CUDA error: out of memory " * (MEGABYTE // 26),
    "translated": "错误 CUDA GPU 0 " + "1.00 GiB，" * (MEGABYTE // 9),
    "escapes": "\x1b[31m" * (MEGABYTE // 5),
    "quoting": "> " * (MEGABYTE // 2),
    "boxes": "│ " * (MEGABYTE // 2),
    "lines": "CUDA out of memory. Tried to allocate\n" * (MEGABYTE // 38),
    "short lines": "1.00\nGiB\n" * (MEGABYTE // 9),
}


@pytest.mark.parametrize("name", JUNK)
def test_a_megabyte_of_junk_is_read(name: str):
    failures = read(JUNK[name])
    assert all(0 <= size < 2**63 for failure in failures for size in numbers(failure).values())


_FRAGMENTS = sorted({part for sample in ALL for part in sample.text.replace("\n", " \n ").split(" ") if part})


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_FRAGMENTS), max_size=60), st.sampled_from([" ", "\n", "", "\r\n", " │ "]))
def test_fragments_of_messages_in_any_order(parts: list[str], between: str):
    for failure in read(between.join(parts)):
        assert failure.quote.line >= 1
        assert failure.end >= failure.position
        assert all(size.bytes >= 0 for size in failure.numbers.values())


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=400))
def test_any_text(text: str):
    read(text)
    read(f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {text}")


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(ALL), st.data())
def test_a_message_with_a_piece_missing_or_strange(sample, data):
    """The numbers that are read still stand in the text."""
    start = data.draw(st.integers(0, len(sample.text)))
    end = data.draw(st.integers(start, min(len(sample.text), start + 40)))
    text = (
        sample.text[:start]
        + data.draw(st.text(alphabet=" \n.;,()[]ab\x1b\u00a0", max_size=5))
        + sample.text[end:]
    )
    for failure in read(text):
        assert all(size.bytes >= 0 for size in failure.numbers.values())
