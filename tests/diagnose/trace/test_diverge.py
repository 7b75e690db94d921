"""First divergences of sequences whose differences were made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from oomph.diagnose.trace.diverge import Divergence, diverge
from oomph.memory.timeline import Kind, Timeline

#: (+size, name) asks, (-1, name) gives back.
Acts = Sequence[tuple[int, str]]


def timeline(acts: Acts, base: int = 1 << 40) -> Timeline:
    """A timeline in which each name has an address of its own; `base` moves them all."""
    where: dict[str, int] = {}
    sizes: dict[str, int] = {}
    rows = []
    for size, name in acts:
        address = where.setdefault(name, base + (len(where) << 24))
        if size >= 0:
            sizes[name] = size
            rows.append((Kind.ALLOC, address, size))
        else:
            rows += [
                (kind, address, sizes.get(name, -size)) for kind in (Kind.FREE_REQUESTED, Kind.FREE_COMPLETED)
            ]
    kinds, addresses, asked = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    none = np.zeros(len(rows), np.int64)
    return Timeline(kinds.astype(np.int8), addresses, asked, none, none, none.astype(np.int32) - 1)


def step(number: int, sizes: Sequence[int] = (512, 1024, 2048, 4096)) -> list[tuple[int, str]]:
    """Asks for each size and gives all back in the other order; sizes differ between steps."""
    names = [f"{number}.{place}" for place in range(len(sizes))]
    asked = [(size + 512 * number, name) for size, name in zip(sizes, names, strict=True)]
    return [*asked, *((-1, name) for name in reversed(names))]


def steps(count: int) -> list[tuple[int, str]]:
    return [act for number in range(count) for act in step(number)]


def compared(real: Acts, traced: Acts) -> Divergence:
    return diverge(timeline(real), timeline(traced, base=1 << 50), from_nothing=True)


def test_the_same_at_other_addresses_is_the_same() -> None:
    found = compared(steps(10), steps(10))
    assert found.same
    assert (found.events_real, found.events_traced, found.equal_before) == (80, 80, 80)
    assert found.differences == 0
    assert found.complete
    assert found.sure_of_begin


def test_a_request_that_only_the_trace_has() -> None:
    acts = steps(10)
    # In front of the fourth step's first request: a request and, four events later, its free.
    traced = [*acts[:24], (7, "x"), *acts[24:28], (-1, "x"), *acts[28:]]
    found = compared(acts, traced)
    assert found.equal_before == 24
    assert found.real is not None
    assert found.traced is not None
    assert (found.real.what, found.real.size_bytes) == ("alloc", 512 + 512 * 3)
    assert (found.traced.what, found.traced.size_bytes) == ("alloc", 7)
    assert (found.only_real, found.only_traced, found.other_block) == (0, 2, 0)


def test_another_size_is_a_request_and_its_free_on_each_side() -> None:
    traced = steps(10)
    traced[42] = (999, traced[42][1])
    found = compared(steps(10), traced)
    assert found.equal_before == 42
    assert (found.only_real, found.only_traced) == (2, 2)


def test_frees_of_other_blocks_of_the_same_size() -> None:
    real = [(512, "a"), (512, "b"), (-1, "a"), (-1, "b"), (1024, "c")]
    traced = [(512, "a"), (512, "b"), (-1, "b"), (-1, "a"), (1024, "c")]
    found = compared(real, traced)
    assert found.equal_before == 2
    assert found.real is not None
    assert found.real.what == "free"
    assert (found.only_real, found.only_traced, found.other_block) == (0, 0, 2)


def test_one_that_ends_early() -> None:
    found = compared(steps(3), steps(2))
    assert found.equal_before == 16
    assert found.traced is not None
    assert found.traced.what == "end"
    assert (found.only_real, found.only_traced) == (8, 0)


def test_a_recording_that_began_late_is_found_in_the_trace() -> None:
    # The ring kept the last 6 of 20 steps.
    found = diverge(timeline(steps(20)[14 * 8 :]), timeline(steps(20)))
    assert found.same
    # Eight acts a step; a free is two events.
    assert found.began_at == 14 * (4 + 2 * 4)
    assert not found.sure_of_begin


def test_of_steps_that_are_alike_the_last_ones_are_taken() -> None:
    alike = [act for number in range(20) for act in [(size, f"{number}.{name}") for size, name in STEP]]
    found = diverge(timeline(alike[14 * 8 :]), timeline(alike))
    assert found.same
    assert found.began_at == 14 * 12


STEP = [(512, "a"), (1024, "b"), (2048, "c"), (4096, "d"), (-1, "d"), (-1, "c"), (-1, "b"), (-1, "a")]


def test_the_window_of_the_script_is_where_the_recording_is() -> None:
    traced = timeline([(100, "w"), *steps(3), (-1, "w")])
    found = diverge(timeline(steps(3)), traced, (1, len(traced) - 2))
    assert found.same
    assert found.sure_of_begin
    assert (found.began_at, found.ends_at) == (1, len(traced) - 2)
    with pytest.raises(ValueError, match="does not lie within"):
        diverge(timeline(steps(3)), traced, (5, 1000))


def test_frees_of_blocks_from_before_are_told_by_their_size() -> None:
    real = timeline([(-512, "old"), *steps(2)])
    traced = timeline([(512, "old"), (-1, "old"), *steps(2)])
    found = diverge(real, traced, (1, len(traced)))
    assert found.same


def test_sequences_with_nothing_in_common() -> None:
    found = compared([(1, "a"), (2, "b")], [(3, "a"), (4, "b"), (5, "c")])
    assert (found.equal_before, found.only_real, found.only_traced) == (0, 2, 3)


def test_a_difference_in_every_step_of_a_long_run() -> None:
    real, traced = [], []
    for number in range(3000):
        acts = [act for part in range(4) for act in step(4 * (number % 50) + part)]
        acts = [(size, f"{number}.{name}") for size, name in acts]
        real += acts
        traced += [*acts[:10], (7, f"x{number}"), *acts[10:20], (-1, f"x{number}"), *acts[20:]]
    found = compared(real, traced)
    assert found.equal_before == 10
    assert (found.only_real, found.only_traced, found.other_block) == (0, 6000, 0)
    assert found.complete


def test_runs_too_unlike_to_follow_are_said_to_be() -> None:
    rng = np.random.default_rng(0)

    def noise(first: int) -> list[tuple[int, str]]:
        return [(int(size), f"{number}") for number, size in enumerate(rng.integers(first, first + 40, 2000))]

    found = compared(noise(1), noise(1))
    assert found.equal_before < 20
    assert found.only_real + found.events_real - found.only_real == 2000
    assert found.only_real - found.only_traced == found.events_real - found.events_traced


@pytest.mark.parametrize("seed", range(20))
def test_pairs_put_in_anywhere_are_counted(seed: int) -> None:
    """Requests of sizes that nothing else has, and their frees, at places drawn by chance: nothing else differs."""
    rng = np.random.default_rng(seed)
    acts = steps(30)
    traced = list(acts)
    pairs = int(rng.integers(1, 30))
    for number in range(pairs):
        first = int(rng.integers(0, len(traced) + 1))
        traced.insert(first, (7 + 2 * number, f"x{number}"))
        traced.insert(int(rng.integers(first + 1, min(len(traced), first + 9) + 1)), (-1, f"x{number}"))
    found = compared(acts, traced)
    assert (found.only_real, found.only_traced, found.other_block) == (0, 2 * pairs, 0)
    there = compared(traced, acts)
    assert (there.only_real, there.only_traced, there.other_block) == (2 * pairs, 0, 0)
