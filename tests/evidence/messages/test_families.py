from __future__ import annotations

import pytest

from tests.evidence.messages.layouts import prefixed, traceback
from tests.evidence.messages.read import numbers, read
from tests.evidence.messages.samples import ALL, ALLOCATOR, ASYNC, SHORT, Sample, ids


@pytest.mark.parametrize("sample", ALL, ids=ids)
def test_a_lone_message(sample: Sample):
    (failure,) = read(sample.text)
    assert failure.format == sample.format
    assert failure.kind == sample.kind
    assert numbers(failure) == sample.numbers
    assert failure.device == sample.device
    assert not failure.truncated
    assert "mention" not in failure.detail
    if "rank" not in sample.text:
        assert failure.rank is None
    if sample.vendor:
        assert failure.vendor == sample.vendor


@pytest.mark.parametrize("sample", ALL, ids=ids)
def test_the_same_message_in_a_log(sample: Sample):
    log = f"step 11 | loss 2.314 | mem 11.20 GiB\n{traceback(sample.text)}\nstep 12 | loss 2.310 | mem 11.21 GiB\n"
    (failure,) = read(log)
    assert (failure.format, numbers(failure)) == (sample.format, sample.numbers)


@pytest.mark.parametrize("sample", ALLOCATOR, ids=ids)
def test_processes_and_artefacts(sample: Sample):
    (failure,) = read(sample.text)
    assert tuple((use.pid, use.used and use.used.bytes) for use in failure.processes) == sample.processes
    assert set(failure.artefacts) == sample.artefacts


@pytest.mark.parametrize("sample", ALLOCATOR + ASYNC[:2], ids=ids)
def test_an_exception_is_raised_and_a_log_line_is_not(sample: Sample):
    name, message = sample.text.split(": ", 1)
    (raised,) = read(f"{name}: {message}")
    (logged,) = read(f"2025-03-04 00:29:47 | WARNING | trainer | caught it, batch 8 next: {message}")
    assert raised.raised
    assert not logged.raised
    assert numbers(logged) == sample.numbers


@pytest.mark.parametrize("sample", ALLOCATOR, ids=ids)
def test_slack_is_half_of_the_last_digit_and_none_for_bytes(sample: Sample):
    (failure,) = read(sample.text)
    for name, size in failure.numbers.items():
        if name == "other_process_bytes":
            continue
        if f" {size.bytes} bytes" in sample.text:
            assert size.slack_bytes == 0
        else:
            assert 0 < size.slack_bytes <= 2**30 // 200 + 1


@pytest.mark.parametrize("sample", ALLOCATOR, ids=ids)
def test_the_place_and_the_quote(sample: Sample):
    first = sample.text[:60]
    (failure,) = read(f"one\ntwo\n\n{sample.text}\nfive")
    assert failure.quote.source == "train.log"
    assert failure.quote.line == 4
    assert failure.quote.text.startswith(first)
    assert (failure.position.document, failure.position.line) == (0, 3)
    assert failure.end.line == 3


def test_a_message_of_several_lines_ends_where_its_text_ends():
    (failure,) = read(f"one\n{ASYNC[1].text}after\n")
    assert failure.position.line == 1
    assert 5 <= failure.end.line <= 7


@pytest.mark.parametrize(
    "sample", [each for each in ALLOCATOR + ASYNC[:2] + SHORT if "rank" not in each.text], ids=ids
)
def test_a_rank_prefix_tells_the_rank(sample: Sample):
    failures = read(prefixed("[rank11]: ")(sample.text))
    assert [(failure.format, failure.rank, failure.stream) for failure in failures] == [
        (sample.format, 11, "rank11")
    ]


@pytest.mark.parametrize("index", ["0", "7", "15"])
def test_the_device_index(index: str):
    for sample in ALLOCATOR:
        if sample.device is None:
            continue
        text = sample.text.replace(f"GPU {sample.device}", f"GPU {index}").replace(
            f"NPU {sample.device}", f"NPU {index}"
        )
        (failure,) = read(text)
        assert failure.device == int(index), sample.id


def test_a_nul_byte_in_place_of_the_index():
    """torch 2.3 printed the index as a character: 0 is NUL, 1 is SOH."""
    sample = next(each for each in ALLOCATOR if each.device is None and "GPU  has" in each.text)
    for character in "\x00\x01\x07":
        (failure,) = read(sample.text.replace("GPU  has", f"GPU {character} has"))
        assert (failure.format, numbers(failure)) == (sample.format, sample.numbers)


def test_the_async_message_that_was_cut_by_its_own_nul_byte():
    (failure,) = read(
        "torch.OutOfMemoryError: Allocation on device \n\nThis error means you ran out of memory."
    )
    assert failure.format == "A1_cudaMallocAsync"
    assert numbers(failure) == {}


_REJECTED = (
    "torch.OutOfMemoryError: CUDA out of memory. Allocation was preemptively rejected because it would exceed "
    "per_process_memory_fraction limit. Requested size: 512.00 MiB"
)


@pytest.mark.parametrize(
    "text",
    [
        _REJECTED,
        "torch.OutOfMemoryError: CUDA out of memory.",
        "torch.cuda.OutOfMemoryError: CUDA out of memory",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "[rank0]: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ],
)
def test_a_raised_message_without_the_usual_rest_is_still_a_device_oom(text: str):
    (failure,) = read(text)
    assert failure.kind == "device_oom"
    assert set(numbers(failure)) <= {"requested_bytes"}
    if "2.00 GiB" in text:
        assert numbers(failure) == {"requested_bytes": 2 * 2**30}
    assert numbers(failure).get("requested_bytes") in (None, 2 * 2**30, 512 * 2**20)


def test_two_prints_of_one_message_are_two_failures_for_others_to_merge():
    sample = ALLOCATOR[0]
    failures = read(f"ERROR {sample.text}\nsome line\n{sample.text}\n")
    assert [numbers(failure) for failure in failures] == [sample.numbers] * 2
