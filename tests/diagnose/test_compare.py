"""Two failed runs of one job side by side."""

from __future__ import annotations

from oomph.diagnose.compare import Comparison, compare
from tests.diagnose.logs import BACKWARD, FORWARD, diagnosed, oom, steps, traceback

A = diagnosed(
    "per_device_train_batch_size=8\nmax_seq_length: 2048\n" + steps(1, 40) + traceback(FORWARD, oom())
)
B = diagnosed(
    "per_device_train_batch_size=4\nmax_seq_length: 2048\n"
    + steps(1, 900)
    + traceback(BACKWARD, oom("3.00 GiB", allocated="44.00 GiB", cached="33.00 GiB"))
)
CLEAN = diagnosed(steps(1, 10) + "Training completed.\n")


def row(comparison: Comparison, what: str) -> tuple[str, str]:
    (found,) = [one for one in comparison.rows if one.what == what]
    return found.a, found.b


def test_what_differs_is_there_from_both_sides() -> None:
    both = compare("a.log", A, "b.log", B)
    assert row(both, "phase") == ("forward", "backward")
    assert row(both, "step reached") == ("40", "900")
    assert row(both, "request") == ("2.00 GiB", "3.00 GiB")
    assert row(both, "allocated") == ("76.40 GiB", "44.00 GiB")
    assert row(both, "cached") == ("1.10 GiB", "33.00 GiB")
    assert row(both, "cause") == ("activations (likely)", "fragmentation (likely)")
    assert row(both, "batch size") == ("8", "4")
    assert row(both, "sequence length") == ("2048", "2048")


def test_reserved_is_the_sum() -> None:
    # 76.40 + 1.10 and 44.00 + 33.00
    assert row(compare("a", A, "b", B), "reserved") == ("77.50 GiB", "77.00 GiB")


def test_what_neither_shows_is_left_out() -> None:
    whats = {one.what for one in compare("a", A, "b", B).rows}
    assert "private pools" not in whats
    assert "optimizer" not in whats


def test_a_clean_run_beside_a_failed_one() -> None:
    both = compare("a", CLEAN, "b", B)
    assert row(both, "outcome") == ("no_oom", "failed")
    assert row(both, "request") == ("", "3.00 GiB")
    assert both.exit_code == 1
    assert compare("a", CLEAN, "b", CLEAN).exit_code == 0


def test_titles_and_diagnoses_are_kept() -> None:
    both = compare("a.log", A, "b.log", B)
    assert (both.title_a, both.title_b, both.a, both.b) == ("a.log", "b.log", A, B)
    assert {one.section for one in both.rows} == {"Failure", "Memory", "Job"}
