"""Translated messages: what the sizes behind the third are is told by how they fit."""

import pytest

from tests.evidence.messages.read import numbers, read
from tests.evidence.messages.sizes import gib, mib

_HEAD = {"requested_bytes": gib(1.25), "capacity_bytes": gib(23.65), "free_bytes": mib(412.31)}
_ALL = {
    **_HEAD,
    "process_bytes": gib(23.24),
    "allocated_bytes": gib(22.31),
    "unallocated_bytes": mib(512),
}


def chinese(*tail: str) -> str:
    return "，".join(
        [
            "运行时错误：CUDA 显存不足。尝试分配 1.25 GiB。GPU 0 的总容量为 23.65 GiB，其中 412.31 MiB 空闲。",
            *tail,
        ]
    )


@pytest.mark.parametrize(
    "text",
    [
        chinese(
            "包括非 PyTorch 内存在内，该进程已使用 23.24 GiB 内存。在已分配的内存中，22.31 GiB 由 PyTorch 分配",
            "另有 512.00 MiB 由 PyTorch 保留但未分配。",
        ),
        (
            "ОШИБКА: CUDA: недостаточно памяти. Попытка выделить 1.25 GiB. GPU 0 имеет общий объём 23.65 GiB, из "
            "которых 412.31 MiB свободно. Включая память вне PyTorch, этот процесс использует 23.24 GiB. Из "
            "выделенной памяти 22.31 GiB выделено PyTorch, а 512.00 MiB зарезервировано PyTorch, но не выделено."
        ),
    ],
)
def test_six_sizes_in_pytorchs_order(text):
    (failure,) = read(text)
    assert failure.format == "L1_localised"
    assert numbers(failure) == _ALL


def test_five_sizes_without_the_process():
    (failure,) = read(chinese("22.31 GiB 由 PyTorch 分配", "另有 512.00 MiB 保留但未分配。"))
    assert numbers(failure) == {name: size for name, size in _ALL.items() if name != "process_bytes"}


def test_another_process_before_them():
    (failure,) = read(
        chinese(
            "进程 30991 占用 1.00 GiB 内存。该进程已使用 22.24 GiB。21.31 GiB 由 PyTorch 分配",
            "512.00 MiB 未分配。",
        )
    )
    assert numbers(failure) == {
        **_HEAD,
        "other_process_bytes": gib(1),
        "process_bytes": gib(22.24),
        "allocated_bytes": gib(21.31),
        "unallocated_bytes": mib(512),
    }


@pytest.mark.parametrize(
    "tail",
    [
        # more in it than the process has: 22.31 + 1.00 > 23.24
        "该进程已使用 23.24 GiB。22.31 GiB 由 PyTorch 分配，另有 1.00 GiB 未分配。",
        # a process larger than the card
        "该进程已使用 24.24 GiB。22.31 GiB 由 PyTorch 分配，另有 512.00 MiB 未分配。",
        # the last two may have been turned around
        "该进程已使用 23.24 GiB。512.00 MiB 未分配，22.31 GiB 由 PyTorch 分配。",
        # a clause more than is known
        "该进程已使用 23.24 GiB。22.31 GiB 分配，其中 1.00 GiB 在池中，另有 512.00 MiB 未分配。",
        # one that is missing
        "该进程已使用 23.24 GiB。",
    ],
)
def test_only_the_first_three_where_the_rest_does_not_fit(tail):
    (failure,) = read(chinese(tail))
    assert numbers(failure) == _HEAD


def test_the_order_before_torch_2_2():
    """Capacity, allocated, free, reserved: 20.00 + 0.41 + 22.00 is more than the card, so 20 GiB are not free."""
    (failure,) = read(
        "错误：CUDA 内存不足。尝试分配 1.25 GiB（GPU 0；总容量 23.65 GiB；已分配 20.00 GiB；空闲 412.31 MiB；"
        "PyTorch 共保留 22.00 GiB）"
    )
    assert numbers(failure) == {**_HEAD, "allocated_bytes": gib(20), "reserved_bytes": gib(22)}
