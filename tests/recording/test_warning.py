"""Projections against arithmetic that is written out."""

from __future__ import annotations

import random

from oomph.recording.warning import Coming, Seen, project

GIB = 1 << 30
MIB = 1 << 20
STAYS = 10 * GIB


def batches(lengths, per_token=MIB, rows=2, gradients=0, first=1, stays=STAYS) -> list[Seen]:
    return [
        Seen(
            step=first + number,
            stays_bytes=stays,
            peak_bytes=stays + gradients + rows * length * per_token,
            rows=rows,
            length=length,
            forward_growth_bytes=rows * length * per_token,
        )
        for number, length in enumerate(lengths)
    ]


def codes(found) -> list[str]:
    return [one.code for one in found]


def test_the_longest_batch_by_a_line_through_different_ones():
    seen = batches([100, 200, 300, 400, 500], gradients=GIB)
    # 2 x 4000 MiB + 1 GiB of gradients + 10 GiB = 18.8125 GiB
    coming = Coming(capacity_bytes=18 * GIB, longest=4000, bound="said")
    (found,) = project(seen, coming)
    assert found.code == "warning.batch"
    assert abs(found.high_bytes - (11 * GIB + 8000 * MIB)) < MIB
    assert abs(found.low_bytes - (11 * GIB + 8000 * MIB)) < MIB
    assert "2 x 4000" in found.text
    assert project(seen, Coming(capacity_bytes=19 * GIB, longest=4000)) == []


def test_noise_widens_the_interval_and_the_upper_end_decides():
    noise = random.Random(1)
    seen = [
        Seen(one.step, one.stays_bytes, one.peak_bytes + noise.randrange(64 * MIB), one.rows, one.length)
        for one in batches(range(100, 500, 20))
    ]
    (found,) = project(seen, Coming(capacity_bytes=10 * GIB, longest=4000))
    assert found.low_bytes < 10 * GIB + 8000 * MIB + 32 * MIB < found.high_bytes
    between = (found.low_bytes + found.high_bytes) // 2
    assert codes(project(seen, Coming(capacity_bytes=between, longest=4000))) == ["warning.batch"]
    assert project(seen, Coming(capacity_bytes=found.high_bytes, longest=4000)) == []


def test_the_longest_batch_in_proportion_where_all_had_one_size():
    seen = batches([1000] * 5, gradients=GIB)
    coming = Coming(capacity_bytes=GIB, longest=2000, gradient_bytes=GIB)
    (found,) = project(seen, coming)
    assert found.low_bytes == 10 * GIB + GIB + 2 * 2000 * MIB
    assert found.high_bytes == 10 * GIB + 2 * (GIB + 2000 * MIB)


def test_nothing_is_said_of_a_batch_that_was_as_long():
    assert project(batches([1000] * 5), Coming(capacity_bytes=1, longest=1000, saves=False)) == []
    assert project(batches([1000] * 5), Coming(capacity_bytes=1, longest=0, saves=False)) == []


def test_too_few_steps_say_nothing_and_the_first_does_not_count():
    assert project(batches([100, 200, 300], first=0), Coming(capacity_bytes=1, longest=4000)) == []
    assert project([], Coming(capacity_bytes=1, longest=4000)) == []
    assert project(batches([100, 200, 300]), Coming(capacity_bytes=0, longest=4000)) == []


def test_the_first_evaluation():
    seen = batches([1000] * 4)
    # 16 rows instead of 2: eight times the results at least, eight times the forward at most.
    coming = Coming(capacity_bytes=12 * GIB, evaluation_rows=16, result_bytes=100 * MIB)
    (found,) = project(seen, coming)
    assert found.code == "warning.eval"
    assert found.low_bytes == 10 * GIB + 800 * MIB
    assert found.high_bytes == 10 * GIB + 8 * 2000 * MIB
    assert project(seen, Coming(capacity_bytes=26 * GIB, evaluation_rows=16, result_bytes=1)) == []
    assert project(seen, Coming(capacity_bytes=12 * GIB, evaluation_rows=0)) == []


def test_saving_where_parameters_are_sharded():
    seen = batches([1000] * 4)
    coming = Coming(capacity_bytes=20 * GIB, full_bytes=16 * GIB, local_bytes=2 * GIB)
    (found,) = project(seen, coming)
    assert (found.code, found.high_bytes) == ("warning.save", 26 * GIB)
    assert project(seen, Coming(capacity_bytes=27 * GIB, full_bytes=16 * GIB, local_bytes=2 * GIB)) == []
    whole = Coming(capacity_bytes=20 * GIB, full_bytes=16 * GIB, local_bytes=16 * GIB)
    assert project(seen, whole) == []


def grown(steps, per_step, noise=0):
    source = random.Random(3)
    return [
        Seen(step, STAYS + step * per_step + source.randrange(noise + 1), 12 * GIB + step * per_step)
        for step in range(1, steps + 1)
    ]


def test_growth_and_when_memory_is_full():
    seen = grown(20, 10 * MIB)
    # At step 20: 10 GiB + 200 MiB stay, 2 GiB above that at the peak; 1 GiB more of room is 102.4 steps.
    capacity = 10 * GIB + 200 * MIB + 2 * GIB + GIB
    (found,) = project(seen, Coming(capacity_bytes=capacity))
    assert found.code == "warning.growth"
    assert "10.00 MiB a step" in found.text
    assert "about step 122" in found.text
    assert project(seen, Coming(capacity_bytes=capacity, total_steps=122)) == []
    assert codes(project(seen, Coming(capacity_bytes=capacity, total_steps=200))) == ["warning.growth"]


def test_ups_and_downs_are_no_growth():
    assert project(grown(40, 0, noise=500 * MIB), Coming(capacity_bytes=12 * GIB + MIB)) == []
    assert project(grown(40, 1000), Coming(capacity_bytes=12 * GIB + MIB)) == []
    assert project(grown(11, 100 * MIB), Coming(capacity_bytes=14 * GIB)) == []


def test_growth_under_noise():
    seen = grown(100, 20 * MIB, noise=50 * MIB)
    assert codes(project(seen, Coming(capacity_bytes=16 * GIB, total_steps=1000))) == ["warning.growth"]
