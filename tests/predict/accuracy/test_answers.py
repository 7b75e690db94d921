from __future__ import annotations

import pytest

from benchmarks.judge.answers import answer
from benchmarks.judge.rows import Row
from oomph.errors import UsageError
from oomph.phases import Phase
from oomph.predict.interval import BANDS, Band
from tests.predict.accuracy.fakes import KNOWN, peak, plan, rank, simple


@pytest.fixture
def configs(tmp_path):
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "m.json").write_text("{}")
    return folder


def row(metric="max_allocated", measured=100, config="m.json", **more):
    return Row("r", "s", metric, measured, raw={"model": {"config": config}}, **more)


def asked(configs, its, of=None, replay=True):
    return answer(of or row(), configs, lambda raw, folder: KNOWN, lambda job, replay: its, replay=replay)


def test_a_peak_is_the_highest_of_all_phases_but_saving(configs):
    its = plan(
        rank(
            peak(Phase.LOAD, 50),
            peak(Phase.FORWARD, 90, 80, 95),
            peak(Phase.BACKWARD, 110, 100, 120),
            peak(Phase.SAVE, 500),
        )
    )
    given = asked(configs, its)
    assert (given.predicted, given.low, given.high, given.phase) == (110, 100, 120, "backward")
    assert given.error == pytest.approx(0.1)  # 110 / 100 - 1
    assert given.covered
    assert given.width == pytest.approx(20 / 110)


def test_the_band_is_taken_off_an_interval_again(configs, monkeypatch):
    monkeypatch.setitem(BANDS, ("allocated", "known"), Band(0.1, 0.2))
    # variants from 1000 to 1100: 900 to 1320 with the band
    given = asked(configs, plan(rank(peak(Phase.BACKWARD, 1000, 900, 1320))))
    assert given.code == pytest.approx((1000, 1100))


def test_evaluation_counts_where_the_plan_has_it(configs):
    its = plan(rank(peak(Phase.BACKWARD, 110), peak(Phase.EVAL, 130)))
    assert asked(configs, its).phase == "eval"


def test_the_rank_that_needs_most_is_the_one_compared(configs):
    its = plan(rank(peak(Phase.BACKWARD, 90)), rank(peak(Phase.BACKWARD, 95)))
    assert asked(configs, its).predicted == 95


def test_what_is_left_after_the_step_has_its_own_number(configs):
    its = plan(rank(peak(Phase.BACKWARD, 200), end=100))
    given = asked(configs, its, row("end_allocated"))
    assert given.predicted == 100
    assert given.low <= 100 <= given.high


def test_reserved_and_the_whole_card(configs):
    its = plan(
        rank(peak(Phase.FORWARD, 80, reserved=150), peak(Phase.BACKWARD, 90, reserved=140), outside=(20, 40))
    )
    reserved = asked(configs, its, row("max_reserved"))
    assert (reserved.predicted, reserved.low, reserved.high, reserved.phase) == (150, 140, 160, "forward")
    card = asked(configs, its, row("nvml_device"))
    # reserved 150 and the middle of 20 to 40; 140 + 20 to 160 + 40
    assert (card.predicted, card.low, card.high) == (180, 160, 200)


def test_active_memory_lies_between_allocated_and_reserved(configs):
    its = plan(rank(peak(Phase.BACKWARD, 90, 85, 95, reserved=140)))
    given = asked(configs, its, row("max_active"))
    assert (given.predicted, given.low, given.high) == (90, 85, 150)


def test_reserved_without_a_replay_is_unsupported(configs):
    given = asked(configs, simple(100), row("max_reserved"))
    assert given.predicted is None
    assert "not played through the allocator" in given.unsupported


def test_what_the_plan_does_not_support_is_listed_with_its_words(configs):
    given = asked(configs, plan(unsupported=("unsupported: pipeline parallel",)))
    assert given.unsupported == "unsupported: pipeline parallel"
    assert not given.crashed


@pytest.mark.parametrize("config", ["missing.json", "../configs/m.json", "/etc/hostname"])
def test_a_configuration_that_is_not_beside_the_points_is_unsupported(configs, config):
    given = asked(configs, simple(100), row(config=config))
    assert "is not in configs/" in given.unsupported


def test_a_row_with_a_problem_is_unsupported(configs):
    given = asked(configs, simple(100), Row("line 3", "", problem="line 3 is not JSON."))
    assert given.unsupported == "line 3 is not JSON."


@pytest.mark.parametrize(
    ("error", "words", "crashed"),
    [
        (UsageError("no such GPU"), "no such GPU", False),
        (KeyError("x"), "oomph failed: KeyError: 'x'", True),
        (RecursionError("deep"), "oomph failed: RecursionError: deep", True),
    ],
)
def test_an_error_is_a_sentence_and_the_rest_goes_on(configs, error, words, crashed):
    def failing(raw, folder):
        raise error

    given = answer(row(), configs, failing, lambda job, replay: simple(100))
    assert given.unsupported == words
    assert given.crashed is crashed
