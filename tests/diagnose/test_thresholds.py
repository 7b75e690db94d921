"""Cases on both sides of every threshold, and what a model of the allocator says about fragmentation's.

The reasons are in docs/decisions/0004-thresholds.md. Nothing here is read off logs.
"""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Certainty
from oomph.diagnose.model import Outcome as Ended
from oomph.diagnose.rules.oom101_other_process import ORDINARY_OUTSIDE, SMALL_NEIGHBOUR
from oomph.diagnose.rules.oom208_growth import MIN_GROWTH, MIN_SAMPLES
from oomph.diagnose.rules.oom209_cudagraph import MIN_SHARE
from oomph.diagnose.rules.oom301_fragmentation import HOLDS, LIKELY_RATIO
from oomph.diagnose.survival import ENOUGH_STEPS, ENOUGH_STEPS_SHARED
from tests.diagnose.logs import (
    FORWARD,
    causes,
    diagnosed,
    failed,
    finding,
    gib,
    old_oom,
    oom,
    ruled_out,
    steps,
    top,
    traceback,
)
from tests.diagnose.packing import GIB, MIB, Refusal
from tests.diagnose.workloads import SHARES, Job, Outcome, packed_peaks, phases, play, study, varying


@pytest.fixture(scope="module")
def studied() -> list[tuple[str, Refusal, Outcome]]:
    """Sixty jobs by chance, each on some twenty cards: every refusal."""
    return [(kind, one.refusal, one) for kind, one in study(60) if one.refusal is not None]


def named(studied: list[tuple[str, Refusal, Outcome]], ratio: float, holds: float = HOLDS) -> list[Outcome]:
    """The refusals that a rule with this threshold would call fragmentation."""
    return [
        one
        for _, refusal, one in studied
        if refusal.ratio >= ratio and refusal.cached >= holds * refusal.segment
    ]


def share(found: list[Outcome], what: str) -> float:
    return sum(getattr(one, what) for one in found) / len(found)


def printed(refusal: Refusal, context: int = 600 * MIB) -> str:
    """The message of this refusal on a card with a context beside PyTorch's memory."""

    def size(value: int) -> str:
        if value > GIB:
            return f"{value / GIB:.2f} GiB"
        return f"{value / MIB:.2f} MiB"

    return oom(
        size(refusal.segment),
        total=size(refusal.capacity + context),
        free=size(refusal.free),
        process=size(refusal.reserved + context),
        allocated=size(refusal.allocated),
        cached=size(refusal.cached),
    )


class TestFragmentation:
    def test_a_cache_that_could_hold_the_request_proves_nothing_by_itself(self, studied) -> None:
        """Requests are small beside the card: nearly every full card has that much in its gaps."""
        found = named(studied, 0.0)
        assert share(found, "step_fits_packed") < 0.7
        assert share(found, "job_fits_packed") < 0.6

    def test_at_the_threshold_the_allocator_was_what_failed(self, studied) -> None:
        found = named(studied, LIKELY_RATIO)
        assert len(found) >= 20
        assert share(found, "step_fits_packed") >= 0.95
        assert share(found, "job_fits_packed") >= 0.85

    def test_at_half_the_threshold_every_third_claim_would_be_wrong(self, studied) -> None:
        assert share(named(studied, LIKELY_RATIO / 2), "job_fits_packed") <= 0.75

    def test_a_higher_threshold_gains_nothing_and_finds_less(self, studied) -> None:
        assert len(named(studied, 2 * LIKELY_RATIO)) < 0.7 * len(named(studied, LIKELY_RATIO))

    @pytest.mark.parametrize("states", [0, 12], ids=["frozen weights", "all weights trained"])
    def test_steady_shapes_of_a_deep_model_leave_small_gaps(self, states: int) -> None:
        job, lengths = Job(states=states), [8192] * 6
        need = max(packed_peaks(job, lengths))
        ratios = [
            one.refusal.ratio for part in SHARES if (one := play(job, lengths, int(need * part))).refusal
        ]
        assert len(ratios) >= 8
        assert max(ratios) < 0.05

    def test_varying_shapes_leave_larger_ones(self, studied) -> None:
        ratios = {
            kind: sorted(refusal.ratio for one, refusal, _ in studied if one == kind)
            for kind in ("fixed", "varying")
        }
        middle = {kind: values[len(values) // 2] for kind, values in ratios.items()}
        assert middle["varying"] > 3 * middle["fixed"]
        assert max(ratios["varying"]) > LIKELY_RATIO

    def test_varying_shapes_near_the_limit_of_a_deep_model_stay_below_it(self) -> None:
        job, lengths = Job(), varying(0, 24, 16384)
        need = max(packed_peaks(job, lengths))
        ratios = [
            one.refusal.ratio for part in SHARES if (one := play(job, lengths, int(need * part))).refusal
        ]
        assert 0.04 < max(ratios) < LIKELY_RATIO

    def test_the_rule_says_of_every_refusal_what_the_threshold_says(self, studied) -> None:
        sides = {True: 0, False: 0}
        for _, refusal, _ in studied[::5]:
            clear = (
                abs(refusal.ratio - LIKELY_RATIO) > 0.01
                and abs(refusal.cached / refusal.segment - HOLDS) > 0.05
            )
            if not clear or refusal.segment <= 2 * MIB:
                continue
            diagnosis = failed(FORWARD, printed(refusal))
            likely = [
                one
                for one in diagnosis.findings
                if one.cause == "fragmentation" and one.certainty is Certainty.LIKELY
            ]
            expected = refusal.ratio >= LIKELY_RATIO and refusal.cached >= HOLDS * refusal.segment
            assert bool(likely) is expected
            sides[expected] += 1
        assert min(sides.values()) >= 3

    @pytest.mark.parametrize(
        ("allocated", "cached", "certainty"),
        [
            # 17.00 / (76.00 + 17.00) = 18.3 %, 16.00 / (76.00 + 16.00) = 17.4 %
            ("76.00 GiB", "17.00 GiB", Certainty.LIKELY),
            ("76.00 GiB", "16.00 GiB", Certainty.POSSIBLE),
        ],
    )
    def test_both_sides_of_the_ratio(self, allocated: str, cached: str, certainty: Certainty) -> None:
        message = oom(total="94.50 GiB", free="0.40 GiB", process=None, allocated=allocated, cached=cached)
        assert finding(failed(FORWARD, message), "fragmentation").certainty is certainty

    def test_both_sides_of_what_the_cache_must_hold(self) -> None:
        # 9.60 of 10.00 GiB = 96 %, 9.40 of 10.00 GiB = 94 %; 30 % of the memory is cached on both sides
        enough = oom(
            "10.00 GiB",
            free="0.90 GiB",
            total="33.50 GiB",
            process=None,
            allocated="22.40 GiB",
            cached="9.60 GiB",
        )
        short = oom(
            "10.00 GiB",
            free="0.30 GiB",
            total="32.20 GiB",
            process=None,
            allocated="21.90 GiB",
            cached="9.40 GiB",
        )
        assert top(failed(FORWARD, enough)) == "fragmentation"
        assert "fragmentation" not in causes(failed(FORWARD, short))

    def test_what_rounding_up_to_a_segment_adds(self) -> None:
        """A tensor of 40.01 MiB prints 42.00 MiB: 95 % of what is printed is what it needs."""
        assert pytest.approx(HOLDS, abs=0.01) == 40.01 / 42


class TestOutside:
    """What is neither free nor PyTorch's: 79.15 GiB - 1.05 GiB free - reserved."""

    @pytest.mark.parametrize(
        ("reserved", "said"),
        [
            ("75.65 GiB", None),  # 2.45 GiB: a context with NCCL
            ("75.55 GiB", Certainty.POSSIBLE),  # 2.55 GiB
            ("58.50 GiB", Certainty.POSSIBLE),  # 19.60 GiB = 24.8 % of the card
            ("57.90 GiB", Certainty.LIKELY),  # 20.20 GiB = 25.5 %
        ],
    )
    def test_both_sides(self, reserved: str, said: Certainty | None) -> None:
        allocated = f"{float(reserved.split()[0]) - 1:.2f} GiB"
        diagnosis = failed(FORWARD, old_oom(reserved=reserved, allocated=allocated))
        if said is None:
            assert "other_process" not in causes(diagnosis)
            assert "2.45 GiB" in ruled_out(diagnosis, "other_process")
        else:
            assert finding(diagnosis, "other_process").certainty is said

    def test_published_contexts_lie_below_and_a_second_job_above(self) -> None:
        """Context alone 0.27 to 1.78 GiB; a modern context with its kernels and NCCL's first barrier is 2.00 GiB."""
        for published in (0.27, 0.47, 0.62, 0.92, 1.42, 1.78, 2.00):
            assert gib(published) < ORDINARY_OUTSIDE
        # Many communicators (about 6 GB) or an all_to_all (4.34 GB) lie above: hence possible only, until a quarter.
        for published in (4.34e9, 6e9):
            assert ORDINARY_OUTSIDE < published < 0.25 * gib(79.15)

    def test_a_small_card_is_judged_by_its_share_too(self) -> None:
        # 6.00 - 0.10 - 3.40 = 2.50 GiB = 42 % of a card of 6 GiB; 6.00 - 0.10 - 4.00 = 1.90 GiB = 32 %
        crowded = old_oom(
            "200.00 MiB", total="6.00 GiB", free="0.10 GiB", allocated="3.10 GiB", reserved="3.40 GiB"
        )
        roomy = old_oom(
            "200.00 MiB", total="6.00 GiB", free="0.10 GiB", allocated="3.70 GiB", reserved="4.00 GiB"
        )
        assert "other_process" in causes(failed(FORWARD, crowded))
        assert "other_process" not in causes(failed(FORWARD, roomy))

    @pytest.mark.parametrize(("used", "named"), [("0.98 GiB", False), ("1.02 GiB", True)])
    def test_a_named_neighbour_of_a_gibibyte(self, used: str, named: bool) -> None:
        assert SMALL_NEIGHBOUR == GIB
        rest = 79.15 - 0.55 - float(used.split()[0])
        message = oom(
            free="0.55 GiB",
            others=[(4242, used)],
            process=f"{rest:.2f} GiB",
            allocated=f"{rest - 1.2:.2f} GiB",
            cached="0.60 GiB",
        )
        assert ("other_process" in causes(failed(FORWARD, message))) is named


class TestLimits:
    """Free far above the request: by more than 1 GiB and a 32nd of the card."""

    @pytest.mark.parametrize(
        ("total", "free", "request_", "limit"),
        [
            # 79.15 / 32 = 2.47 GiB
            ("79.15 GiB", "4.45 GiB", "2.00 GiB", False),
            ("79.15 GiB", "4.50 GiB", "2.00 GiB", True),
            # 23.69 / 32 = 0.74 GiB: one GiB counts
            ("23.69 GiB", "1.98 GiB", "1.00 GiB", False),
            ("23.69 GiB", "2.02 GiB", "1.00 GiB", True),
        ],
    )
    def test_both_sides(self, total: str, free: str, request_: str, limit: bool) -> None:
        reserved = float(total.split()[0]) - float(free.split()[0]) - 0.6
        message = old_oom(
            request_,
            total=total,
            free=free,
            reserved=f"{reserved:.2f} GiB",
            allocated=f"{reserved - 0.3:.2f} GiB",
        )
        assert ("cap_or_driver_limit" in causes(failed(FORWARD, message))) is limit


class TestGrowth:
    @staticmethod
    def log(*sizes: float) -> str:
        return "".join(
            f"step {n} loss 2.31 memory allocated: {size:.2f} GiB\n" for n, size in enumerate(sizes, 1)
        )

    def test_both_sides_of_the_growth(self) -> None:
        assert MIN_GROWTH == 0.25
        # 60.00 x 1.24 = 74.40, 60.00 x 1.26 = 75.60, in even steps
        below = self.log(60, 62.40, 64.80, 67.20, 69.60, 72.00, 74.40)
        above = self.log(60, 62.60, 65.20, 67.80, 70.40, 73.00, 75.60)
        assert "growth_over_steps" not in causes(failed(FORWARD, oom(), before=below))
        assert "growth_over_steps" in causes(failed(FORWARD, oom(), before=above))

    def test_both_sides_of_the_number_of_readings(self) -> None:
        assert MIN_SAMPLES == 6
        six = failed(FORWARD, oom(), before=self.log(30, 38, 46, 54, 62, 70))
        assert finding(six, "growth_over_steps").certainty is Certainty.LIKELY
        # Four or five are a suspicion, and only when the last is at least twice the first.
        five = failed(FORWARD, oom(), before=self.log(30, 40, 50, 60, 70))
        assert finding(five, "growth_over_steps").certainty is Certainty.POSSIBLE
        for sizes in ((40, 48, 56, 64, 72), (30, 50, 70)):
            assert "growth_over_steps" not in causes(failed(FORWARD, oom(), before=self.log(*sizes)))

    def test_what_is_alive_at_the_end_of_a_step_does_not_depend_on_shapes(self) -> None:
        """In the model, whatever the lengths: growth of that figure is something that is kept."""
        job = Job(layers=3, width=512)
        for lengths in ([4096] * 6, varying(1, 6, 8192)):
            alive: dict[object, int] = {}
            ends = []
            for events in phases(job, lengths):
                for sign, name, size in events:
                    if sign == "-":
                        del alive[name]
                    else:
                        alive[name] = size
                ends.append(sum(alive.values()))
            assert len(set(ends[1:])) == 1  # after the step that makes the states
            assert ends[1] > ends[0]


class TestGraphPools:
    @pytest.mark.parametrize(("pools", "said"), [("15.00 GiB", False), ("15.60 GiB", True)])
    def test_both_sides_of_a_fifth(self, pools: str, said: bool) -> None:
        assert MIN_SHARE == 0.2
        # 15.00 / 76.40 = 19.6 %, 15.60 / 76.40 = 20.4 %
        assert ("cudagraph_compile_pool" in causes(failed(FORWARD, oom(pools=pools)))) is said

    def test_published_pools_of_working_jobs_lie_below(self) -> None:
        # 62 MiB of a 32 GiB card; 572 MiB of 135.53 GiB allocated; 2,464 MiB on cards of 24 GiB
        for pool, allocated in ((62 * MIB, gib(30)), (572 * MIB, gib(135.53)), (2464 * MIB, gib(22))):
            assert pool / allocated < MIN_SHARE
        # 71.20 GiB of a 184.31 GiB card, where capture failed
        assert MIN_SHARE < 71.20 / 184.31


class TestSurvival:
    CAUGHT = f"WARNING: caught CUDA OOM, halving the batch: {oom(error='')}\n"

    def test_both_sides_of_the_steps_of_one_process(self) -> None:
        assert ENOUGH_STEPS == 3
        log = steps(1, 20) + self.CAUGHT
        assert diagnosed(log + steps(21, 22)).outcome is Ended.FAILED
        assert diagnosed(log + steps(21, 23)).outcome is Ended.RECOVERED

    def test_both_sides_of_the_steps_of_several(self) -> None:
        assert ENOUGH_STEPS_SHARED == 25
        log = "world_size: 8\n" + steps(1, 20) + traceback(FORWARD[1:], oom())
        assert diagnosed(log + steps(21, 44)).outcome is Ended.FAILED
        assert diagnosed(log + steps(21, 45)).outcome is Ended.RECOVERED
