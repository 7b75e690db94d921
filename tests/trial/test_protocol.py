"""The protocol on simulated jobs: one change at a time, the fewest trials, the right cause."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.trial.guess import Guess
from oomph.trial.model import PhasePeak, TrialOutcome, TrialResult, Variable
from oomph.trial.protocol import Verdict, isolate

OOM, FITS = TrialOutcome.OOM, TrialOutcome.FITS


def variable(name, values, *, ordered=True):
    return Variable(name, "placeholder", name, tuple(values), ordered, "said" if ordered else "")


def drive(variables, outcome, predict=None, limit=500):
    """Runs a search; `outcome(setting)` is a TrialOutcome or a TrialResult. The end, and [(ask, result)]."""
    search = isolate(variables, predict)
    walked = []
    ask = next(search)
    while True:
        result = outcome(dict(ask.setting))
        if isinstance(result, TrialOutcome):
            result = TrialResult(len(walked) + 1, ask.setting, result, str(result), phase="forward", step=1)
        walked.append((ask, result))
        assert len(walked) < limit
        try:
            ask = search.send(result)
        except StopIteration as end:
            return end.value, walked


def tried(walked):
    return [dict(ask.setting) for ask, _ in walked]


def differences(one, other):
    return [name for name in one if one[name] != other[name]]


def below(limit):
    """Fails from batch x seq = limit on."""
    return lambda setting: OOM if setting["batch"] * setting["seq"] >= limit else FITS


BATCH = variable("batch", range(8, 0, -1))
SEQ = variable("seq", [8192, 4096, 2048, 1024, 512])


def test_what_does_not_fail_is_not_searched():
    found, walked = drive([BATCH, SEQ], lambda _: FITS)
    assert found.verdict is Verdict.PASSES
    assert len(walked) == 1


@pytest.mark.parametrize("outcome", [one for one in TrialOutcome if not one.tells])
def test_what_fails_otherwise_is_not_searched(outcome):
    found, walked = drive([BATCH], lambda _: outcome)
    assert found.verdict is Verdict.UNKNOWN
    assert (outcome.value in found.why) or (outcome is TrialOutcome.HUNG and "--timeout" in found.why)
    assert len(walked) == 1


@pytest.mark.parametrize("limit", range(2, 9))
def test_batch_is_the_cause(limit):
    """It fails from `limit` on: as given, at its least, then at most log2 of the seven places between."""
    found, walked = drive([BATCH, SEQ], lambda s: OOM if s["batch"] >= limit else FITS)
    assert (found.verdict, found.causes) == (Verdict.CAUSE, ("batch",))
    assert found.setting == {"batch": limit - 1, "seq": 8192}
    assert len(walked) <= 2 + 3
    (batch, seq) = found.limits
    assert (batch.largest, batch.fails, batch.known) == (limit - 1, limit, True)
    assert (seq.largest, seq.known) == (8192, False)


def test_context_is_the_cause():
    """Any batch of 8192 fails; 2048 fits even with the batch as given. Five trials: as given, batch at its least, seq
    at its least, batch back, then of 4096, 2048, 1024 the middle, and 4096."""
    found, walked = drive([BATCH, SEQ], lambda s: OOM if s["seq"] > 2048 else FITS)
    assert (found.verdict, found.causes) == (Verdict.CAUSE, ("seq",))
    assert found.setting == {"batch": 8, "seq": 2048}
    assert tried(walked) == [
        {"batch": 8, "seq": 8192},
        {"batch": 1, "seq": 8192},
        {"batch": 1, "seq": 512},
        {"batch": 8, "seq": 512},
        {"batch": 8, "seq": 2048},
        {"batch": 8, "seq": 4096},
    ]


def test_both_matter():
    """8 x 512 = 4096 fails, 1 x 8192 fails; with the batch at 1, 2048 fits (2048 < 3000), with 2048 only batch 1."""
    found, _ = drive([BATCH, SEQ], below(3000))
    assert (found.verdict, found.causes) == (Verdict.TOGETHER, ("batch", "seq"))
    assert found.setting == {"batch": 1, "seq": 2048}


def test_both_matter_and_the_batch_need_not_be_the_least():
    """Limit 4000 at 512 x 8 = 4096: batch 1 takes 2048; 2048 x 2 = 4096 does not fit, so batch stays at 1."""
    found, _ = drive([variable("batch", [8, 4, 2, 1]), variable("seq", [4096, 600])], below(4000))
    assert found.setting == {"batch": 4, "seq": 600}
    assert [(one.largest, one.fails) for one in found.limits] == [(4, 8), (600, 4096)]


def test_nothing_fits():
    found, walked = drive([BATCH, SEQ], lambda _: OOM)
    assert found.verdict is Verdict.NOTHING_FITS
    assert len(walked) == 3


def test_categories_are_tried_in_order():
    opt = variable("opt", ["adamw", "adafactor", "sgd"], ordered=False)
    found, walked = drive([BATCH, opt], lambda s: FITS if s["opt"] == "sgd" else OOM)
    assert (found.verdict, found.causes) == (Verdict.CAUSE, ("opt",))
    assert found.setting == {"batch": 8, "opt": "sgd"}
    assert [(s["batch"], s["opt"]) for s in tried(walked)] == [
        (8, "adamw"), (1, "adamw"), (1, "adafactor"), (1, "sgd"), (8, "sgd"),
    ]  # fmt: skip


def test_a_crash_is_no_lack_of_memory():
    """Batch 1 crashes (batch norm), so 2 is the least that tells; 4 crashes, too: the search goes around it."""

    def outcome(setting):
        if setting["batch"] in (1, 4):
            return TrialOutcome.CRASHED
        return OOM if setting["batch"] >= 6 else FITS

    found, walked = drive([BATCH], outcome)
    assert (found.verdict, found.setting) == (Verdict.CAUSE, {"batch": 5})
    assert sum("could not tell" in note for note in found.notes) >= 1
    assert {"batch": 1} in tried(walked)


def test_nothing_below_tells():
    found, walked = drive([BATCH], lambda s: OOM if s["batch"] == 8 else TrialOutcome.HUNG)
    assert found.verdict is Verdict.UNKNOWN
    assert len(walked) == 3


def test_a_leak_is_named_after_two_trials():
    def outcome(setting):
        return TrialResult(
            1, setting, OOM, "", phase="forward", step=20, growth_bytes=2 << 20, capacity_bytes=30 << 20,
            peaks=(PhasePeak("forward", 31 << 20, failed=True),),
        )  # fmt: skip

    found, walked = drive([BATCH, SEQ], outcome)
    assert found.verdict is Verdict.LEAK
    assert "2.00 MiB a step" in found.why
    assert len(walked) == 2


def test_growth_that_does_not_explain_the_failure_is_no_leak():
    """8 KiB a step over 20 steps, and 10 MiB too much: it would have failed without."""

    def outcome(setting):
        fits = setting["batch"] < 4
        return TrialResult(
            1, setting, FITS if fits else OOM, "", phase="" if fits else "forward", step=20, growth_bytes=8 << 10,
            capacity_bytes=30 << 20, peaks=(PhasePeak("forward", (20 if fits else 40) << 20, failed=not fits),),
        )  # fmt: skip

    found, _ = drive([BATCH], outcome)
    assert (found.verdict, found.setting) == (Verdict.CAUSE, {"batch": 3})


def linear(base, slope, capacity):
    """A job whose forward needs base + slope x batch."""

    def outcome(setting):
        size = base + slope * setting["batch"]
        fits = size <= capacity
        peak = PhasePeak("forward", size if fits else capacity, failed=not fits, start_bytes=base)
        return TrialResult(
            1, setting, FITS if fits else OOM, "", phase="" if fits else "forward", step=2 if fits else 0,
            capacity_bytes=capacity, peaks=(peak,),
        )  # fmt: skip

    return outcome


@pytest.mark.parametrize("limit", range(1, 64))
def test_what_was_measured_finds_the_limit_in_two_trials(limit):
    """64 values: halving takes 6 trials. The one that fits at its least tells the line, so that the limit itself is
    tried, and the value above it."""
    many = variable("batch", range(64, 0, -1))
    found, walked = drive([many], linear(1000, 10, 1000 + 10 * limit), Guess())
    assert found.setting == {"batch": limit}
    assert len(walked) <= 2 + 2


VALUES = st.lists(st.integers(1, 10_000), min_size=2, max_size=40, unique=True).map(
    lambda v: sorted(v, reverse=True)
)


@st.composite
def jobs(draw):
    """Up to four variables, and a job that fits where a sum of their parts is small enough. Categories have parts that
    are in no order."""
    variables, parts = [], []
    for number in range(draw(st.integers(1, 4))):
        values = draw(VALUES)
        ordered = draw(st.booleans())
        if not ordered:
            values = draw(st.permutations(values))
        variables.append(variable(f"v{number}", values, ordered=ordered))
        parts.append(draw(st.integers(0, 5)))
    most = sum(part * one.values[0] for part, one in zip(parts, variables, strict=True))
    limit = draw(st.integers(0, max(most, 1)))

    def need(setting):
        return sum(part * setting[one.name] for part, one in zip(parts, variables, strict=True))

    return variables, need, limit


@settings(max_examples=400, deadline=None)
@given(jobs(), st.booleans(), st.integers(-50, 50))
def test_never_two_changes_at_once_and_few_trials(job, guesses, error):
    """Every trial differs in one variable from the one that it is compared with, which has been run, and told. It is
    the trial before it, unless that failed. 1 + for each variable its least, its search (one more for a guess), one
    check: by arithmetic."""
    variables, need, limit = job

    def predict(one, known):
        if not guesses or not known:
            return None
        return max(0, min(len(one.values) - 1, len(one.values) // 2 + error))

    found, walked = drive(variables, lambda s: FITS if need(s) <= limit else OOM, predict)
    run = []
    for ask, result in walked:
        if ask.against is None:
            assert not run
        else:
            assert differences(ask.setting, ask.against) == [ask.variable]
            (against,) = [outcome for setting, outcome in run if setting == dict(ask.against)]
            assert against.tells
            before, outcome = run[-1]
            if len(differences(ask.setting, before)) != 1:
                assert outcome is OOM
                assert against is FITS
        assert (dict(ask.setting)) not in [setting for setting, _ in run], "the same trial twice"
        run.append((dict(ask.setting), result.outcome))
    most = 1
    for one in variables:
        count = len(one.values)
        most += (2 + math.ceil(math.log2(count)) if one.ordered else count - 1) + 1
    assert len(walked) <= most
    if found.verdict in (Verdict.CAUSE, Verdict.TOGETHER):
        assert need(found.setting) <= limit
        assert (dict(found.setting), FITS) in run
    elif found.verdict is Verdict.PASSES:
        assert need({one.name: one.values[0] for one in variables}) <= limit


@settings(max_examples=200, deadline=None)
@given(VALUES, st.integers(0, 10_000), st.integers(-40, 80))
def test_the_largest_value_is_found_whatever_is_guessed(values, limit, guess):
    found, walked = drive(
        [variable("v", values)],
        lambda s: FITS if s["v"] <= limit else OOM,
        lambda one, known: max(0, min(len(values) - 1, guess)),
    )
    fitting = [value for value in values if value <= limit]
    if len(fitting) == len(values):
        assert found.verdict is Verdict.PASSES
    elif fitting:
        assert found.setting == {"v": max(fitting)}
    else:
        assert found.verdict is Verdict.NOTHING_FITS
    assert len(walked) <= 1 + 1 + 1 + math.ceil(math.log2(len(values)))
