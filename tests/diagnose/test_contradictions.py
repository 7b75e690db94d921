"""Sizes that cannot all be true: what rests on them is a suspicion at most."""

from __future__ import annotations

from oomph.diagnose.model import Certainty
from tests.diagnose.logs import FORWARD, failed, finding, oom

#: 12 GiB free of a card of 10 GiB, of which PyTorch holds 11.
DOCTORED = oom(
    "2.00 GiB",
    total="10.00 GiB",
    free="12.00 GiB",
    process="9.00 GiB",
    allocated="11.00 GiB",
    cached="1.00 GiB",
)


def test_nothing_that_rests_on_them_is_likely():
    diagnosis = failed(FORWARD, DOCTORED)
    assert diagnosis.incident is not None
    assert diagnosis.incident.ledger.problems
    for cause in ("cap_or_driver_limit", "static_state_too_big"):
        assert finding(diagnosis, cause).certainty is Certainty.POSSIBLE
    assert "contradict" in finding(diagnosis, "cap_or_driver_limit").says


def test_sound_sizes_keep_their_weight():
    """20 GiB free of 40 when 2 GiB were refused: 40 - 20 = 20 = 19 + 0.5 + a context of 0.5."""
    sound = oom(
        "2.00 GiB",
        total="40.00 GiB",
        free="20.00 GiB",
        process="20.00 GiB",
        allocated="19.00 GiB",
        cached="0.50 GiB",
    )
    assert finding(failed(FORWARD, sound), "cap_or_driver_limit").certainty is Certainty.LIKELY
