"""OOM201: the rule that is left when nothing more specific speaks."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Certainty
from tests.diagnose.logs import (
    ADAM_STATE,
    BACKWARD,
    FORWARD,
    MODEL_TO,
    causes,
    diagnosed,
    failed,
    finding,
    gib,
    oom,
    top,
    traceback,
)

RECOMPUTE = (
    *BACKWARD,
    "torch/utils/checkpoint.py:1183 in unpack_hook: _run_fn_with_dynamo_disabled(frame.recompute_fn, *args)",
    "torch/utils/checkpoint.py:1688 in recompute_fn: fn(*args, **kwargs)",
    "net.py:31 in forward: x = x + self.mlp(self.norm(x))",
)


@pytest.mark.parametrize(
    ("frames", "where"), [(FORWARD, "forward"), (BACKWARD, "backward"), (RECOMPUTE, "recompute")]
)
def test_a_full_card_in_a_step(frames: tuple[str, ...], where: str) -> None:
    diagnosis = failed(frames, oom())
    found = finding(diagnosis, "activations")
    assert top(diagnosis) == "activations"
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"request_bytes": gib(2.00)}
    assert where in found.says
    assert "76.40 GiB" in found.says
    assert found.actions[0] == "micro-batch"


def test_what_was_ruled_out_is_said_with_numbers() -> None:
    reasons = " ".join(one.why for one in failed(FORWARD, oom(cached="1.10 GiB", process=None)).ruled_out)
    assert "1.10 GiB cached could not hold 2.00 GiB" in reasons
    assert "614.40 MiB" in reasons  # 79.15 - 1.05 - 76.40 - 1.10 = 0.60 GiB for a context


@pytest.mark.parametrize("frames", [ADAM_STATE, MODEL_TO], ids=["optimizer", "load"])
def test_no_activations_where_none_are(frames: tuple[str, ...]) -> None:
    assert "activations" not in causes(failed(frames, oom()))


def test_an_unknown_phase_makes_it_possible_only() -> None:
    diagnosis = diagnosed(oom() + "\n")
    assert finding(diagnosis, "activations").certainty is Certainty.POSSIBLE
    assert "Nothing in the input says" in finding(diagnosis, "activations").says


def test_one_request_larger_than_the_card() -> None:
    message = oom("96.00 GiB", free="70.10 GiB", process="9.05 GiB", allocated="8.10 GiB", cached="0.40 GiB")
    diagnosis = failed(FORWARD, message)
    assert top(diagnosis) == "activations"
    assert "larger than the whole card" in finding(diagnosis, "activations").says


def test_an_old_message_without_numbers() -> None:
    error = "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/torch/lib/THC/generic/THCStorage.cu:66"
    diagnosis = diagnosed(traceback(FORWARD, error))
    assert top(diagnosis) == "activations"
