"""A message may end anywhere. What is left is read; nothing is made up from a part of a number."""

from __future__ import annotations

import re
from itertools import accumulate

import pytest

from tests.evidence.messages.layouts import prefixed
from tests.evidence.messages.read import numbers, read
from tests.evidence.messages.samples import ALLOCATOR, ASYNC, Sample, ids

_SIZE = r"[\d.]+ (?:bytes|[KMG]i?B)"
#: A number must have been read as soon as its clause is complete.
CLAUSES = {
    "requested_bytes": rf"Tried to allocate {_SIZE}\W",
    "capacity_bytes": rf"{_SIZE} total capacity\W|total capaci?ty of {_SIZE}\W",
    "free_bytes": rf"{_SIZE} free\W|of which {_SIZE} is free\W",
    "allocated_bytes": rf"{_SIZE} already allocated\W|{_SIZE} is allocated by PyTorch\W|MPS allocated: {_SIZE}\W",
    "reserved_bytes": rf"{_SIZE} reserved in total by PyTorch\W",
    "unallocated_bytes": rf"{_SIZE} cached\W|and {_SIZE} is reserved by PyTorch but unallocated\W",
    "process_bytes": rf"this process has {_SIZE} memory in use\W",
    "private_pool_bytes": rf"with {_SIZE} allocated in private pools\W",
    "allowed_bytes": rf"{_SIZE} allowed;|max allowed: {_SIZE}\W",
    "other_allocations_bytes": rf"other allocations: {_SIZE}\W",
}

#: What may follow the place where the text ends, and at every how many characters it is tried.
TAILS = {
    "": 1,
    "\n2025-03-04 10:00:09 INFO mem 11.20 GiB, 512.00 MiB free, 3.00 GiB cached\n": 1,
    "...": 3,
    "\n": 7,
    "\n[launcher] uploading 3.50 GiB of logs (42 files)\n": 7,
    "\n 45%|####5     | 90/200 [01:02<01:15,  1.46it/s, mem 23.3G]\n": 7,
    "\nTraceback (most recent call last):\n": 7,
    "\nKilled\n": 7,
}


def allowed(sample: Sample) -> dict[str, set[int]]:
    """For each number the values that a cut message may show: its own; for the sum over processes, any part."""
    values = {name: {value} for name, value in sample.numbers.items()}
    if sample.processes:
        values["other_process_bytes"] = set(accumulate(used or 0 for _, used in sample.processes))
    return values


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("sample", ALLOCATOR, ids=ids)
def test_cut_at_every_character(sample: Sample, tail: str):
    fine = allowed(sample)
    complete = {
        name: match.end()
        for name, pattern in CLAUSES.items()
        if name in sample.numbers and (match := re.search(pattern, sample.text))
    }
    problems: list[tuple[str, str, object]] = []
    for end in range(1, len(sample.text), TAILS[tail]):
        text = sample.text[:end]
        failures = [each for each in read(text + tail) if each.kind is sample.kind]
        seen = [numbers(failure) for failure in failures]
        wrong = {
            name: value for got in seen for name, value in got.items() if value not in fine.get(name, set())
        }
        if wrong:
            problems.append((text[-30:], "made up", wrong))
        due = {name for name, at in complete.items() if at <= end}
        if due and len(failures) != 1:
            problems.append((text[-30:], "failures", len(failures)))
        elif due and (lost := due - set(seen[0])):
            problems.append((text[-30:], "lost", lost))
    assert problems[:5] == []


@pytest.mark.parametrize("sample", ASYNC[:3], ids=ids)
def test_a_message_of_several_lines_cut_at_every_character(sample: Sample):
    for end in range(1, len(sample.text)):
        for failure in read(sample.text[:end] + "\nstep 12 mem 11.20 GiB\n"):
            assert numbers(failure).items() <= dict(sample.numbers).items(), sample.text[:end][-30:]


@pytest.mark.parametrize("sample", ALLOCATOR, ids=ids)
def test_cut_with_a_rank_prefix_and_another_rank_behind(sample: Sample):
    """The next rank's numbers stay the next rank's."""
    fine = allowed(sample)
    other = "CUDA out of memory. Tried to allocate 3.33 GiB (GPU 1; 6.66 GiB total capacity; 5.55 GiB already allocated"
    for end in range(40, len(sample.text), 7):
        text = prefixed("[rank0]: ")(sample.text[:end]) + f"\n[rank1]: RuntimeError: {other}\n"
        for failure in read(text):
            if failure.rank == 1:
                assert numbers(failure)["requested_bytes"] == round(3.33 * 2**30)
                continue
            got = numbers(failure)
            assert all(value in fine.get(name, set()) for name, value in got.items()), sample.text[:end][-30:]


@pytest.mark.parametrize(
    "text",
    [
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to all",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 15.66",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 15.66 GiB. GPU 0 has a total capacity of 79.1",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 9.1 ",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.92 GiB (GPU 0; 23.70 GiB total capacity; 19.21 GiB al",
    ],
)
def test_a_cut_message_is_marked(text: str):
    (failure,) = read(text)
    assert failure.truncated
    assert set(numbers(failure)) <= {"requested_bytes", "capacity_bytes", "free_bytes"}
