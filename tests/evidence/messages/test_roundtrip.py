"""Messages of every family made from random numbers, printed as PyTorch prints them: the same bytes must come back."""

from __future__ import annotations

import re
from string import Formatter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evidence.messages.layouts import cut, prefixed, wrapped
from tests.evidence.messages.read import numbers, read
from tests.evidence.messages.samples import (
    ALLOCATOR,
    HINT_22,
    HINT_210,
    HINT_211,
    HINT_HIP,
    Sample,
    ids,
)
from tests.evidence.messages.sizes import exact, printed

_OLD = (
    "RuntimeError: {vendor} out of memory. Tried to allocate {{requested_bytes}} (GPU 0; {{capacity_bytes}} total "
    "capacity; {{allocated_bytes}} already allocated; {rest})"
)
_NEW = (
    "{vendor} out of memory. Tried to allocate {{requested_bytes}}. GPU 0 has a total {capacity} of {{capacity_bytes}} "
    "of which {{free_bytes}} is free. {info}Of the allocated memory {{allocated_bytes}} is allocated by PyTorch, "
    "{pool}and {{unallocated_bytes}} is reserved by PyTorch but unallocated."
)
_RESERVED = "{{free_bytes}} free; {limit}{{reserved_bytes}} reserved in total by PyTorch".replace(
    "{{", "{"
).replace("}}", "}")
_PROCESSES = "Process 4711 has {other_process_bytes} memory in use. "
_THIS = "Including non-PyTorch memory, this process has {process_bytes} memory in use. "
_POOL = "with {private_pool_bytes} allocated in private pools (e.g., CUDA Graphs), "
_SPLIT = " If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation."
_MPS = (
    "RuntimeError: MPS backend out of memory (MPS allocated: {allocated_bytes}, other allocations: "
    "{other_allocations_bytes}, max allowed: {allowed_bytes}). Tried to allocate {requested_bytes} on private "
    "pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause "
    "system failure)."
)
_ASYNC = (
    "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\n"
    "Currently allocated     : {allocated_bytes}\n"
    "Requested               : {requested_bytes}\n"
    "Device limit            : {capacity_bytes}\n"
    "Free (according to CUDA): {free_bytes}\n"
    "PyTorch limit (set by user-supplied memory fraction)\n"
    "                        : {allowed_bytes}\n"
)


def _new(vendor: str = "CUDA", capacity: str = "capacity", info: str = _THIS, pool: str = "") -> str:
    return _NEW.format(vendor=vendor, capacity=capacity, info=info, pool=pool)


#: id -> (format, template). The fields are the names of the numbers.
FAMILIES = {
    "F1": ("F1_cached", _OLD.format(vendor="CUDA", rest="{free_bytes} free; {unallocated_bytes} cached")),
    "F2": ("F2_reserved", _OLD.format(vendor="CUDA", rest=_RESERVED.replace("{limit}", ""))),
    "F2 with a limit": (
        "F2_reserved",
        _OLD.format(vendor="CUDA", rest=_RESERVED.replace("{limit}", "{allowed_bytes} allowed; ")),
    ),
    "F3": ("F3_reserved_hint", _OLD.format(vendor="CUDA", rest=_RESERVED.replace("{limit}", "")) + _SPLIT),
    "F4": ("F4_capacty", "torch.cuda.OutOfMemoryError: " + _new(capacity="capacty")),
    "F5": ("F5_22_23", "torch.cuda.OutOfMemoryError: " + _new(info=_PROCESSES + _THIS) + HINT_22),
    "F6": ("F6_torchOOM", "torch.OutOfMemoryError: " + _new(pool=_POOL) + HINT_22),
    "F7": ("F7_210", "torch.OutOfMemoryError: " + _new(info=_THIS + _PROCESSES) + HINT_210),
    "F8": ("F8_211", "torch.OutOfMemoryError: " + _new() + HINT_211),
    "F8 with everything": (
        "F8_211",
        "torch.OutOfMemoryError: "
        + _new(info=_PROCESSES + _THIS + "{allowed_bytes} allowed; ", pool=_POOL)
        + HINT_211,
    ),
    "H1": ("H1_hip", "torch.OutOfMemoryError: " + _new(vendor="HIP", info="") + HINT_HIP),
    "X1": ("X1_ipex", _OLD.format(vendor="XPU", rest="{reserved_bytes} reserved in total by PyTorch")),
    "X2": (
        "X2_xpu_free",
        "torch.OutOfMemoryError: "
        + _new(vendor="XPU", info="")
        + " Please use `empty_cache` to release all unoccupied cached memory.",
    ),
    "NPU": (
        "NPU_fork",
        "RuntimeError: NPU out of memory. Tried to allocate {requested_bytes} (NPU 0; {capacity_bytes} total capacity; "
        "{allocated_bytes} already allocated; 1.00 GiB current active; {free_bytes} free; {reserved_bytes} reserved in "
        "total by PyTorch)" + _SPLIT,
    ),
    "M2": (
        "M2_mps_GiB",
        _MPS,
    ),
    "A1": (
        "A1_cudaMallocAsync",
        _ASYNC,
    ),
}


def fields(template: str) -> list[str]:
    """The names of the numbers in a template."""
    return [name for _, name, _, _ in Formatter().parse(template) if name]


#: Bytes, from nothing to 8 TiB, as many small as large ones, and the edges of the units.
SIZES = st.one_of(
    st.integers(0, 2048),
    st.integers(0, 2**20),
    st.integers(2**20, 2**30),
    st.integers(2**30, 2**43),
    st.sampled_from([0, 1, 1023, 1024, 1025, 2**20 - 1, 2**20, 2**20 + 1, 2**30 - 1, 2**30, 2**30 + 1]),
)


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_same_bytes_come_back(name: str, data):
    family, template = FAMILIES[name]
    sizes = {field: printed(data.draw(SIZES, label=field)) for field in fields(template)}
    (failure,) = read(template.format(**sizes))
    assert failure.format == family
    assert numbers(failure) == {field: exact(size) for field, size in sizes.items()}


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_same_bytes_come_back_wrapped_between_other_lines(name: str, data):
    _, template = FAMILIES[name]
    sizes = {field: printed(data.draw(SIZES, label=field)) for field in fields(template)}
    wrap = data.draw(st.sampled_from([cut, wrapped]))
    width = data.draw(st.integers(40, 120))
    before = f"step 4 mem {printed(data.draw(SIZES))} allocated, {printed(data.draw(SIZES))} free\n"
    after = f"\nstep 5 mem {printed(data.draw(SIZES))} allocated, {printed(data.draw(SIZES))} free"
    text = before + wrap(template.format(**sizes).rstrip("\n"), width) + after
    (failure,) = read(prefixed("[rank5]: ")(text))
    assert failure.rank == 5
    assert numbers(failure) == {field: exact(size) for field, size in sizes.items()}


@pytest.mark.parametrize("sample", ALLOCATOR, ids=ids)
def test_one_digit_more_or_less_changes_that_number_alone(sample: Sample):
    """Each digit of each printed size is exchanged in turn: exactly one number follows, to the byte."""
    sizes = list(re.finditer(r"[\d.]+ (?:bytes|[KMG]i?B)\b", sample.text))
    assert len(sizes) >= len(sample.numbers)
    skipped = {"17179869184.00 GiB", "57.12 GiB"} | {
        printed(used) for _, used in sample.processes if used and len(sample.processes) > 1
    }
    for size in sizes:
        if size[0] in skipped:
            continue
        for at in (index for index in range(size.start(), size.end()) if sample.text[index].isdigit()):
            digit = "7" if sample.text[at] != "7" else "3"
            text = sample.text[:at] + digit + sample.text[at + 1 :]
            (failure,) = read(text)
            got = numbers(failure)
            changed = {name for name in sample.numbers if got.get(name) != sample.numbers[name]}
            assert set(got) == set(sample.numbers)
            assert len(changed) == 1, (size[0], changed)
            assert got[changed.pop()] == exact(text[size.start() : size.end()])
