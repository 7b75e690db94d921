"""Bytes for each unit, and what is recommended by them."""

from __future__ import annotations

from oomph.trial.guess import Guess
from oomph.trial.lines import line, lines_of, measured
from oomph.trial.model import PhasePeak, TrialOutcome, TrialResult, Variable
from oomph.trial.protocol import Found, Limit, Verdict
from oomph.trial.recommend import recommend

BATCH = Variable("batch", "placeholder", "batch", (8, 7, 6, 5, 4, 3, 2, 1), True, "a range was given")


def result(batch, size, *, fits=True, step=2, seq=1, capacity=100, growth=None, phase="forward"):
    outcome = TrialOutcome.FITS if fits else TrialOutcome.OOM
    return TrialResult(
        batch, {"batch": batch, "seq": seq}, outcome, "", phase="" if fits else phase, step=step,
        capacity_bytes=capacity, growth_bytes=growth,
        peaks=(PhasePeak("forward", size, size, 0, failed=not fits), PhasePeak("eval", 10, 10, 0)),
    )  # fmt: skip


def test_two_points_are_a_line_that_nothing_tests():
    found = line("forward", [(1, 30), (3, 50)])
    assert (found.slope_bytes, found.base_bytes, found.deviation_bytes) == (10, 20, None)
    assert line("forward", [(1, 30)]) is None
    assert line("forward", [(1, 30), (1, 31)]) is None


def test_least_squares_and_the_largest_deviation():
    """Of (1, 10), (2, 20), (3, 33): means 2 and 21, slope (11 + 12) / 2 = 11.5, base -2, deviations .5, 1, .5."""
    found = line("forward", [(1, 10), (2, 20), (3, 33)])
    assert (found.slope_bytes, found.base_bytes, found.deviation_bytes) == (11.5, -2, 1)


def test_what_comes_after_the_failed_phase_of_a_step_is_no_point():
    """Only the step that fails has the long batch: its backward and optimizer were not seen, its load was."""

    def failed(batch, phase):
        peaks = tuple(
            PhasePeak(name, 10 * batch, failed=name == phase)
            for name in ("load", "forward", "backward", "optimizer", "eval")
        )
        return TrialResult(batch, {"batch": batch}, TrialOutcome.OOM, "", phase=phase, step=7, peaks=peaks)

    def whole(phase):
        return [peak.phase for peak in measured(failed(4, phase))]

    assert whole("forward") == ["load", "eval"]
    assert whole("backward") == ["load", "forward", "eval"]
    assert whole("eval") == ["load", "forward", "backward", "optimizer"]
    assert whole("") == ["eval"], "between two phases: it is not known which come after"


def test_lower_bounds_growth_and_other_settings_are_no_points():
    trials = [
        result(8, 95, fits=False),
        result(1, 30),
        result(3, 50),
        result(5, 99, growth=10),
        result(2, 77, seq=2),
        result(7, 80, fits=False, step=0),
    ]
    forward = next(one for one in lines_of(trials, BATCH) if one.phase == "forward")
    assert forward.points == ((1.0, 30), (3.0, 50))
    # The evaluation passed in the trial that failed elsewhere, after its second step: its peak is whole.
    other = next(one for one in lines_of(trials, BATCH) if one.phase == "eval")
    assert [value for value, _ in other.points] == [1.0, 3.0, 8.0]


def found(batch):
    limits = (Limit("batch", batch, batch + 1, True), Limit("seq", 1, None, False))
    return Found(Verdict.CAUSE, "", ("batch",), {"batch": batch, "seq": 1}, limits)


SEQ = Variable("seq", "placeholder", "seq", (1, 0))


def test_headroom_by_the_line_and_never_above_what_fits():
    """20 + 10 a unit: 6 fit with 80 of 100. 10 % free is more than enough; 25 % free leaves 75: 5 (70), by the line."""
    trials = [result(8, 101, fits=False), result(1, 30), result(6, 80)]
    chosen = recommend(found(6), (BATCH, SEQ), trials, 0.10)
    assert (chosen.setting["batch"], chosen.measured, chosen.enough) == (6, True, True)
    assert chosen.headroom == 0.2
    chosen = recommend(found(6), (BATCH, SEQ), trials, 0.25)
    assert (chosen.setting["batch"], chosen.measured, chosen.peak_bytes) == (5, False, 70)
    chosen = recommend(found(6), (BATCH, SEQ), trials, 0.75)
    assert (chosen.setting["batch"], chosen.enough) == (6, False)


def test_nothing_is_recommended_where_nothing_fits():
    nothing = Found(Verdict.NOTHING_FITS, "", (), None, ())
    assert recommend(nothing, (BATCH, SEQ), [result(8, 101, fits=False)], 0.1) is None


def test_a_plan_gives_the_shape_and_a_trial_the_place():
    """The plan says 40 + 10 a unit, 20 more than what was measured at 1: corrected, 8 are 100 of 100."""
    guess = Guess(lambda variable, value, setting: 40 + 10 * int(value))
    assert guess(BATCH, {7: result(1, 30)}) == 0
    assert guess(BATCH, {7: result(1, 30, capacity=85)}) == 2  # 6: 80; 7 would be 90
    assert guess(BATCH, {}) is None
    assert guess(BATCH, {7: result(1, 30, capacity=None)}) is None
