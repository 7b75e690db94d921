"""What grows from step to step, and what only looks as if it did: oomph's answer, against what the generator built."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.model import Growth, Leak, SnapshotReport
from oomph.units import MIB
from tests.snapshots.answers import answer
from tests.snapshots.frames import Line
from tests.snapshots.scenarios import growth, keepers
from tests.snapshots.written import Made

SEEDS = (0, 2, 7)
#: Leaks that add the same bytes in each step.
EVEN = ("keeps_logits", "keeps_logits_later", "keeps_small_blocks", "keeps_two", "keeps_the_graph")
WITH_STACKS = ("all", "python")


def growth_in(report: SnapshotReport) -> Growth:
    found = report.devices[report.shown].growth
    assert found is not None
    return found


def by_line(leaks: tuple[Leak, ...]) -> dict[Line, Leak]:
    result = {}
    for leak in leaks:
        assert leak.place is not None
        result[(leak.place.file, leak.place.line)] = leak
    assert len(result) == len(leaks)
    return result


def checked_steps(made: Made, report: SnapshotReport) -> None:
    """As many steps as there were, each beginning near where it began: what runs between optimizer and next batch may
    count to either."""
    steps = report.devices[0].steps
    assert steps is not None
    truth = made.truth.step_positions
    assert steps.count == len(truth), steps.why
    told_at = steps.first_positions[1 : len(truth)]
    ends = [*truth[1:], len(made.device.events)]
    for told, begin, before, after in zip(told_at, truth[1:], truth[:-1], ends[1:], strict=True):
        assert begin - 0.75 * (begin - before) <= told <= begin + 0.25 * (after - begin)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", growth.LEAKS)
def test_a_leak_has_its_line_and_its_bytes(name: str, seed: int):
    style = WITH_STACKS[seed % 2]
    made = growth.LEAKS[name](seed, style).roomy()
    report = answer(made)
    checked_steps(made, report)
    found = growth_in(report)
    leaks = by_line(found.leaks)
    assert set(leaks) == set(made.truth.leaks)
    for line, size in made.truth.leaks.items():
        assert line is not None
        leak = leaks[line]
        # Where lengths vary or not every step adds, the mean depends on where the trace ends.
        assert leak.bytes_per_step == (size if name in EVEN else pytest.approx(size, rel=0.15))
        assert abs(leak.first_step - made.truth.leak_from_step) <= (2 if name in EVEN else 3)
    assert found.bytes_per_step == sum(leak.bytes_per_step for leak in found.leaks)
    if name != "keeps_logits_of_all_lengths":  # nothing but growth: no batch is longer than another
        assert found.longest_step in (None, 0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", growth.NONE)
def test_what_is_no_leak_is_not_called_one(name: str, seed: int):
    style = WITH_STACKS[seed % 2]
    made = growth.NONE[name](seed, style).roomy()
    report = answer(made)
    checked_steps(made, report)
    found = growth_in(report)
    assert found.leaks == (), found.says
    assert found.bytes_per_step == 0
    assert found.fails_at_step is None
    assert found.longest_step in (None, made.truth.longest_step)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_stacks_nothing_is_called_certain(seed: int):
    for name in (*growth.LEAKS, *growth.NONE):
        run = {**growth.LEAKS, **growth.NONE}[name](seed, "none")
        found = growth_in(answer(run.roomy()))
        assert all(leak.certainty is Certainty.POSSIBLE for leak in found.leaks)
        if name in growth.NONE:
            assert found.leaks == (), (name, found.says)
        elif found.leaks and name in EVEN:
            true = sum(run.truth.leaks.values())
            assert found.bytes_per_step == pytest.approx(true, rel=0.25), (name, found.says)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_longest_batch_is_told_from_growth(seed: int):
    made = growth.longest_batch(seed, "python").roomy()
    found = growth_in(answer(made))
    peaks = made.device.step_peaks()
    assert found.longest_step == made.truth.longest_step
    assert found.longest_peak_bytes == max(peaks)
    assert found.usual_peak_bytes == sorted(peaks)[len(peaks) // 2]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_step_leaves_the_optimizers_states(seed: int):
    made = growth.steady(seed, "all").roomy()
    states = sum(t.size_bytes for t in made.device.alive.values() if t.category == "optimizer state")
    workspaces = sum(t.size_bytes for t in made.device.alive.values() if t.category == "workspace")
    found = growth_in(answer(made))
    # A block may be up to 1 MiB larger than its request, which is what a trace shows of it.
    count = len(made.device.alive)
    assert states <= found.first_step_bytes <= states + workspaces + count * MIB


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["keeps_logits", "keeps_logits_later", "keeps_two"])
def test_when_it_will_not_fit(name: str, seed: int):
    style = WITH_STACKS[seed % 2]
    run = growth.LEAKS[name](seed, style)
    made = run.roomy()
    per_step = sum(run.truth.leaks.values())
    room = made.device.allocator.peak_allocated_bytes + per_step * 11 // 2
    found = growth_in(answer(made, capacity_bytes=room))
    assert found.available_bytes == room
    assert found.fails_at_step == run.first_step_beyond(room)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["keeps_logits", "keeps_logits_later", "keeps_two"])
def test_a_job_that_leaked_until_it_failed(name: str, seed: int):
    style = WITH_STACKS[seed % 2]
    run = growth.LEAKS[name](seed, style)
    room = run.roomy().device.allocator.peak_allocated_bytes + sum(run.truth.leaks.values()) * 11 // 2
    run.steps = 80
    made = run.tight(room)
    report = answer(made)
    found = growth_in(report)
    assert report.devices[0].moment.step == made.truth.fails_at_step
    assert found.fails_at_step == made.truth.fails_at_step
    leaks = by_line(found.leaks)
    assert {line: leaks[line].bytes_per_step for line in leaks} == made.truth.leaks
    assert found.longest_step in (None, 0)


@pytest.mark.parametrize("last", [600, 1000])
def test_a_ring_still_shows_the_leak(last: int):
    for seed in range(4):
        made = growth.keeps_logits(seed, "python").roomy()
        found = growth_in(answer(made, last=last))
        leaks = by_line(found.leaks)
        if found.steps > 4:
            assert {line: leak.bytes_per_step for line, leak in leaks.items()} == made.truth.leaks


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_too_few_steps_say_nothing(steps: int):
    made = growth.keeps_logits(1, "all", steps).roomy()
    found = growth_in(answer(made))
    assert found.leaks == ()
    assert found.fails_at_step is None


@pytest.mark.parametrize("era", ["2.0", "2.1", "2.4", "2.8"])
@pytest.mark.parametrize("frees", ["all", "alloc"])
def test_formats_and_stacks_of_frees(era: str, frees: str):
    """A free may carry its own stack or that of the allocation; older formats have neither times nor annotations."""
    for make in (growth.keeps_two, growth.evaluates, growth.accumulates):
        run = make(0, "all")
        run.frees = frees
        made = run.roomy()
        report = answer(made, era)
        checked_steps(made, report)
        leaks = by_line(growth_in(report).leaks)
        assert {line: leak.bytes_per_step for line, leak in leaks.items()} == made.truth.leaks


@pytest.mark.parametrize("first", range(0, 42, 14))
def test_jobs_of_random_shapes_that_keep_something(first: int):
    """What stays for good is found at its line, with its bytes; lists that lose entries again are no leaks."""
    for seed in range(first, first + 14):
        run, keeper = keepers.job(seed)
        leaks = by_line(growth_in(answer(run.roomy())).leaks)
        assert set(leaks) <= {keepers.KEEPS.line}, (seed, keeper)
        if keeper.count == 0:
            assert not leaks, (seed, keeper)
        elif keeper.count > 6:
            (leak,) = leaks.values()
            # Where not every step adds, the mean depends on where the trace ends.
            near = keeper.bytes_per_step * (0.2 if keeper.way == "few" else 0)
            assert leak.bytes_per_step == pytest.approx(keeper.bytes_per_step, abs=near), (seed, keeper)
            if keeper.way == "late":
                assert abs(leak.first_step - keeper.late) <= 1
