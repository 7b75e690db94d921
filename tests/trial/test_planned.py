"""A plan's prediction orders trials: which variables it speaks of, and that it follows them."""

from __future__ import annotations

from oomph.api import plan
from oomph.trial.guess import Guess
from oomph.trial.model import PhasePeak, TrialOutcome, TrialResult
from oomph.trial.params import parse_param
from oomph.trial.planned import planned_by


def test_batches_and_lengths_of_a_job():
    planned = planned_by(plan(["llama-3.2-1b"], replay=False).job)
    batch, seq, other = (parse_param(text) for text in ("batch=8:1", "seq=4096:512", "opt=a|b"))
    sizes = [planned(batch, value, {"seq": 1024}) or 0 for value in (1, 2, 3)]
    assert 0 not in sizes
    assert sizes == sorted(sizes)
    assert sizes[2] - sizes[1] > 0
    longer = planned(seq, 2048, {"batch": 2})
    assert longer is not None
    assert longer > (planned(seq, 1024, {"batch": 2}) or longer)
    assert planned(other, "a", {}) is None
    assert planned(parse_param("--per_device_eval_batch_size=8:1"), 8, {}) is None


def test_it_gives_a_guess_that_a_measured_trial_has_moved():
    """Measured 2 GiB above the plan at a batch of 1: the guess is the batch that the plan has 2 GiB less room for."""
    job = plan(["llama-3.2-1b"], replay=False).job
    planned, batch = planned_by(job), parse_param("batch=8:1")
    least, most = planned(batch, 1, {"batch": 1}), planned(batch, 5, {"batch": 5})
    assert least is not None
    assert most is not None
    more = 2 << 30
    measured = TrialResult(
        2, {"batch": 1}, TrialOutcome.FITS, "", step=2, capacity_bytes=most + more,
        peaks=(PhasePeak("backward", least + more),),
    )  # fmt: skip
    place = Guess(planned)(batch, {7: measured})
    assert place is not None
    assert batch.values[place] == 5
