from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oomph.memory.ledger import Ledger
from oomph.report.parts import share, split
from oomph.units import GIB, Amount
from tests.report.fakes import ledger


def exact(**gib: float) -> Ledger:
    return Ledger.build({f"{name}_bytes": Amount(int(size * GIB)) for name, size in gib.items()})


def shape(one: Ledger) -> list[tuple[str, float]]:
    return [(part.key, part.size_bytes / GIB) for part in split(one)]


def test_everything_known():
    one = exact(capacity=80, free=4, process=70, allocated=60, cached=8)
    # other = 80 - 4 - 70, outside = 70 - 68
    assert shape(one) == [("other", 6), ("outside", 2), ("allocated", 60), ("cached", 8), ("free", 4)]


def test_only_the_sum_of_other_processes_and_outside():
    one = exact(capacity=80, free=4, allocated=60, reserved=68)
    assert shape(one) == [("not_torch", 8), ("allocated", 60), ("cached", 8), ("free", 4)]


def test_private_pools_are_part_of_allocated():
    parts = split(exact(capacity=80, free=4, allocated=60, reserved=68, private_pool=15))
    assert [(part.key, part.size_bytes / GIB) for part in parts if part.key in ("allocated", "pools")] == [
        ("allocated", 45),
        ("pools", 15),
    ]
    assert [part.shown_bytes for part in parts if part.key == "allocated"] == [60 * GIB]


def test_reserved_alone_is_not_told_apart():
    assert shape(exact(capacity=80, free=4, reserved=68)) == [("not_torch", 8), ("reserved", 68), ("free", 4)]


def test_a_process_alone_is_not_told_apart():
    assert shape(exact(capacity=80, free=4, process=70)) == [("other", 6), ("reserved", 70), ("free", 4)]


def test_what_nothing_says_is_unknown():
    assert shape(exact(capacity=80, free=4)) == [("unknown", 76), ("free", 4)]
    assert shape(exact(capacity=80, allocated=60)) == [("allocated", 60), ("unknown", 20)]


def test_rounding_is_no_part():
    # 79.11 GiB and 78.79 GiB are exact to 5.12 MiB each, so the difference to what is free may be nothing
    one = ledger(
        capacity="79.11 GiB", free="328.62 MiB", process="78.79 GiB", allocated="76.12 GiB", cached="1.00 GiB"
    )
    assert one.other_processes_bytes is not None
    assert next(part.size_bytes for part in split(one) if part.key == "other") == 0


def test_contradicting_numbers_derive_nothing():
    one = ledger(capacity="10.00 GiB", free="1.00 GiB", allocated="8.00 GiB", reserved="0 bytes")
    assert one.problems
    assert [part.key for part in split(one)] == ["allocated", "reserved", "unknown", "free"]


def test_no_numbers_no_parts():
    assert split(Ledger()) == ()
    assert split(exact(request=1)) == ()


def test_cells_are_proportional_with_one_for_the_smallest():
    assert share([500, 250, 250], 8) == [4, 2, 2]
    assert share([1, 999_999, 0], 10) == [1, 9, 0]
    assert share([0, 0], 10) == [0, 0]
    assert share([5, 5, 5], 2) == [1, 1, 1]


@given(st.lists(st.integers(0, 2**60), max_size=8), st.integers(10, 120))
def test_cells_add_up(sizes, room):
    cells = share(sizes, room)
    assert sum(cells) == (room if any(sizes) else 0)
    assert all((count > 0) == (size > 0) for count, size in zip(cells, sizes, strict=True))


@given(
    st.dictionaries(
        st.sampled_from(
            ["capacity", "free", "process", "reserved", "allocated", "cached", "private_pool", "outside"]
        ),
        st.integers(0, 100 * GIB),
    )
)
def test_any_ledger_can_be_split(sizes):
    parts = split(Ledger.build({f"{name}_bytes": Amount(size, 1000) for name, size in sizes.items()}))
    assert all(part.size_bytes >= 0 for part in parts)
