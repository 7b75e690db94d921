"""Several messages: on one line, of several ranks, with their clauses in another order."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.evidence.messages.layouts import cut, interleaved, prefixed, traceback, wrapped
from tests.evidence.messages.read import numbers, read
from tests.evidence.messages.samples import ALLOCATOR, HINT_211, Sample, ids
from tests.evidence.messages.sizes import gib, mib

_NEXT = {one.id: two for one, two in zip(ALLOCATOR, ALLOCATOR[1:] + ALLOCATOR[:1], strict=True)}


@pytest.mark.parametrize("between", [" ", "; ", " | ", "</td><td>", ", then "])
@pytest.mark.parametrize("sample", ALLOCATOR, ids=ids)
def test_two_messages_on_one_line(sample: Sample, between: str):
    second = _NEXT[sample.id]
    failures = read(f"{sample.text}{between}{second.text}")
    assert [(each.format, numbers(each)) for each in failures] == [
        (sample.format, sample.numbers),
        (second.format, second.numbers),
    ]


def test_the_same_message_twice_on_one_line():
    sample = ALLOCATOR[2]
    failures = read(f"{sample.text}; {sample.text}")
    assert [numbers(each) for each in failures] == [sample.numbers] * 2


def message(rank: int) -> tuple[str, dict[str, int]]:
    """A message that differs in every number from rank to rank."""
    text = (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {rank + 2}.25 GiB. GPU {rank} has a total "
        f"capacity of 7{rank}.11 GiB of which {rank + 1}.02 GiB is free. Including non-PyTorch memory, this process "
        f"has 6{rank}.48 GiB memory in use. Of the allocated memory 5{rank}.90 GiB is allocated by PyTorch, and "
        f"63{rank}.88 MiB is reserved by PyTorch but unallocated.{HINT_211}"
    )
    return text, {
        "requested_bytes": gib(rank + 2.25),
        "capacity_bytes": gib(70 + rank + 0.11),
        "free_bytes": gib(rank + 1.02),
        "process_bytes": gib(60 + rank + 0.48),
        "allocated_bytes": gib(50 + rank + 0.90),
        "unallocated_bytes": mib(630 + rank + 0.88),
    }


@pytest.mark.parametrize("prefix", ["[rank{}]: ", "[default{}]:", "{}: "], ids=["rank", "tee", "srun"])
@pytest.mark.parametrize("rows", [cut, wrapped])
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_that_interleave(rows, ranks: int, prefix: str):
    for width in (40, 61, 80, 117):
        text = interleaved(
            prefixed(prefix.format(rank))(rows(traceback(message(rank)[0]), width)) for rank in range(ranks)
        )
        found = {failure.rank: numbers(failure) for failure in read(text)}
        assert found == {rank: message(rank)[1] for rank in range(ranks)}, width


def test_ranks_that_interleave_keep_their_device():
    text = interleaved(prefixed(f"[rank{rank}]: ")(traceback(message(rank)[0])) for rank in range(8))
    assert [(failure.rank, failure.device) for failure in read(text)] == [(rank, rank) for rank in range(8)]


_THIS = "Including non-PyTorch memory, this process has 17.81 GiB memory in use. "
_FIRST = "Process 2102129 has 17.54 GiB memory in use. "
_SECOND = "Process 77 has 512.00 MiB memory in use. "
_LIMIT = "17.69 GiB allowed; "


@pytest.mark.parametrize("limit", ["none", "before", "after"])
@pytest.mark.parametrize("clauses", list(permutations((_THIS, _FIRST, _SECOND))))
def test_process_clauses_in_any_order(clauses: tuple[str, ...], limit: str):
    info = "".join(clauses)
    if limit != "none":
        info = _LIMIT + info if limit == "before" else info + _LIMIT
    (failure,) = read(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 996.00 MiB. GPU 0 has a total capacity of 44.43 "
        f"GiB of which 9.06 GiB is free. {info}Of the allocated memory 17.44 GiB is allocated by PyTorch, and 59.88 "
        f"MiB is reserved by PyTorch but unallocated.{HINT_211}"
    )
    assert numbers(failure) == {
        "requested_bytes": mib(996),
        "capacity_bytes": gib(44.43),
        "free_bytes": gib(9.06),
        "process_bytes": gib(17.81),
        "other_process_bytes": gib(17.54) + mib(512),
        "allocated_bytes": gib(17.44),
        "unallocated_bytes": mib(59.88),
        **({} if limit == "none" else {"allowed_bytes": gib(17.69)}),
    }
    assert [use.pid for use in failure.processes] == [
        2102129 if clause == _FIRST else 77 for clause in clauses if clause != _THIS
    ]


def test_forty_neighbours():
    clauses = "".join(f"Process {1000 + n} has {n + 1}.00 MiB memory in use. " for n in range(40))
    (failure,) = read(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 "
        f"GiB of which 12.00 MiB is free. {clauses}Of the allocated memory 1.00 GiB is allocated by PyTorch, and 2.00 "
        f"MiB is reserved by PyTorch but unallocated.{HINT_211}"
    )
    assert len(failure.processes) == 40
    assert numbers(failure)["other_process_bytes"] == sum(range(1, 41)) * 2**20


@pytest.mark.parametrize(
    ("printed", "size"),
    [
        ("0 bytes", 0),
        ("512 bytes", 512),
        ("1024 bytes", 1024),
        ("1.50 KiB", 1536),
        ("1024.00 KiB", 2**20),
        ("1.00 MiB", 2**20),
        ("1024.00 MiB", 2**30),
        ("1.00 GiB", 2**30),
        ("1023.99 GiB", gib(1023.99)),
        ("2048.00 GiB", 2**41),
    ],
)
def test_every_unit_in_every_place(printed: str, size: int):
    parenthesised = (
        f"CUDA out of memory. Tried to allocate {printed} (GPU 0; {printed} total capacity; {printed} already "
        f"allocated; {printed} free; {printed} allowed; {printed} reserved in total by PyTorch)"
    )
    sentences = (
        f"CUDA out of memory. Tried to allocate {printed}. GPU 0 has a total capacity of {printed} of which {printed} "
        f"is free. Process 9 has {printed} memory in use. Including non-PyTorch memory, this process has {printed} "
        f"memory in use. {printed} allowed; Of the allocated memory {printed} is allocated by PyTorch, with {printed} "
        f"allocated in private pools (e.g., CUDA Graphs), and {printed} is reserved by PyTorch but unallocated."
    )
    for text, count in ((parenthesised, 6), (sentences, 9)):
        (failure,) = read(f"RuntimeError: {text}")
        assert len(failure.numbers) == count
        assert set(numbers(failure).values()) == {size}
