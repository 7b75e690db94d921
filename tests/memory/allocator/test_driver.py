"""Where new segments go, in each order."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from oomph.evidence.snapshot import read
from oomph.memory.allocator.driver import ADDRESS_RANGE, LARGE_SEGMENT, SMALL_SEGMENT, Driver
from oomph.memory.timeline import Kind

MIB = 1 << 20
SNAPSHOTS = Path(os.environ.get("OOMPH_CONFORMANCE") or Path(__file__).parents[4] / "shared") / "snapshots"
#: New segments of a real run of training on Linux, in order: MiB, and the address in the snapshot.
REAL = (
    (100, 0x7FC890000000),
    (20, 0x7FC896400000),
    (100, 0x7FC888000000),
    (100, 0x7FC880000000),
    (26, 0x7FC886400000),
    (26, 0x7FC88E400000),
    (26, 0x7FC87E000000),
    (26, 0x7FC87C000000),
    (100, 0x7FC874000000),
    (100, 0x7FC86C000000),
    (100, 0x7FC864000000),
    (26, 0x7FC86A400000),
    (26, 0x7FC872400000),
    (26, 0x7FC87A400000),
    (26, 0x7FC862000000),
    (100, 0x7FC85A000000),
)
SIZES = [size * MIB for size, _ in REAL] + [2 * MIB, 2 * MIB, 2048 * MIB, 20 * MIB, 30 * 1024 * MIB]


def kind(size: int) -> int:
    return SMALL_SEGMENT if size == 2 * MIB else LARGE_SEGMENT


def drivers():
    return [
        Driver.descending(),
        Driver.ascending(),
        Driver.packed(),
        *(Driver.shuffled(seed) for seed in range(8)),
    ]


def test_packed_gives_the_addresses_of_a_real_run() -> None:
    driver = Driver.packed()
    made = [driver.reserve(size * MIB, LARGE_SEGMENT) for size, _ in REAL]
    first = REAL[0][1]
    assert [address - made[0] for address in made] == [address - first for _, address in REAL]


def test_packed_fills_a_rest_with_several_small_segments() -> None:
    driver = Driver.packed()
    big = driver.reserve(60 * MIB, LARGE_SEGMENT)
    small = [driver.reserve(2 * MIB, SMALL_SEGMENT) for _ in range(3)]
    # 64 MiB hold 60 and two times 2; the third opens a chunk of 32 below.
    assert [address - big for address in small] == [60 * MIB, 62 * MIB, -32 * MIB]


@pytest.mark.parametrize("driver", drivers())
def test_no_two_segments_overlap_and_all_are_aligned(driver: Driver) -> None:
    held = sorted((driver.reserve(size, kind(size)), size) for size in SIZES * 20)
    assert all(address % (2 * MIB) == 0 for address, _ in held)
    assert all(one + size <= other for (one, size), (other, _) in pairwise(held))
    assert driver.invented == len(held)


def test_shuffled_is_the_same_for_the_same_seed_only() -> None:
    def order(seed: int) -> list[int]:
        driver = Driver.shuffled(seed)
        made = [driver.reserve(20 * MIB, LARGE_SEGMENT) for _ in range(50)]
        return sorted(range(50), key=made.__getitem__)

    assert order(3) == order(3)
    assert len({tuple(order(seed)) for seed in range(8)}) == 8


def test_shuffled_never_uses_a_place_twice() -> None:
    driver = Driver.shuffled(5)
    made = {driver.reserve(64 << 30, LARGE_SEGMENT) for _ in range(20_000)}
    assert len(made) == 20_000


def test_what_fits_no_place_lies_below_all_places() -> None:
    driver = Driver.shuffled(1)
    place = driver.reserve(20 * MIB, LARGE_SEGMENT)
    ranges = [driver.reserve(1152 << 30, ADDRESS_RANGE) for _ in range(2)]
    assert ranges[1] + (1152 << 30) <= ranges[0]
    assert ranges[0] + (1152 << 30) <= place


def test_only_ascending_rises() -> None:
    assert [driver.rises for driver in drivers()].count(True) == 1
    assert Driver.ascending().rises


@pytest.mark.parametrize("name", ["transformer-2.7b-ctx128-full-step.pickle", "finetune-torch21.pickle"])
def test_packed_puts_segments_of_equal_size_in_the_order_of_long_real_runs(name) -> None:
    """Only between blocks of equal size do addresses decide. Nothing to compare where the recordings are not there."""
    path = SNAPSHOTS / name
    if not path.is_file():
        return
    timeline = read(path).devices[0].timeline
    new = timeline.positions(Kind.SEGMENT_ALLOC)
    sizes, real = timeline.size_bytes[new], timeline.address[new]
    driver = Driver.packed()
    made = np.array([driver.reserve(size, kind(size)) for size in sizes.tolist()])
    for size in np.unique(sizes):
        these = sizes == size
        assert (np.argsort(made[these]) == np.argsort(real[these])).all()
