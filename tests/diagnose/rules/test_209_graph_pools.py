"""OOM209: private pools of CUDA graphs."""

from __future__ import annotations

from oomph.diagnose.model import Certainty
from tests.diagnose.logs import (
    ADAM_STATE,
    FORWARD,
    causes,
    failed,
    finding,
    gib,
    old_oom,
    oom,
    ruled_out,
    top,
)

CAPTURE = (
    *FORWARD,
    "torch/_inductor/cudagraph_trees.py:1893 in run: return self.record_function(new_inputs, function_id)",
    "torch/_inductor/cudagraph_trees.py:1120 in _record: static_outputs = model(inputs)",
)


def test_pools_that_hold_a_third_of_what_is_allocated() -> None:
    # 25.20 of 76.40 GiB = 33 %
    diagnosis = failed(FORWARD, oom(pools="25.20 GiB"))
    found = finding(diagnosis, "cudagraph_compile_pool")
    assert top(diagnosis) == "cudagraph_compile_pool"
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"private_pool_bytes": gib(25.20)}
    assert "33%" in found.says
    assert found.actions[0] == "compile-without-graphs"


def test_pools_starve_the_optimizer() -> None:
    assert top(failed(ADAM_STATE, oom(pools="40.10 GiB"))) == "cudagraph_compile_pool"


def test_a_small_pool_is_ruled_out_with_its_share() -> None:
    # 1.53 of 76.40 GiB = 2 %
    diagnosis = failed(FORWARD, oom(pools="1.53 GiB"))
    assert top(diagnosis) == "activations"
    assert "1.53 GiB, 2%" in ruled_out(diagnosis, "cudagraph_compile_pool")


def test_a_message_that_would_have_printed_pools() -> None:
    diagnosis = failed(CAPTURE, oom())
    assert "cudagraph_compile_pool" not in causes(diagnosis)
    assert "would print" in ruled_out(diagnosis, "cudagraph_compile_pool")


def test_an_old_message_behind_a_recording_frame() -> None:
    diagnosis = failed(CAPTURE, old_oom())
    assert finding(diagnosis, "cudagraph_compile_pool").certainty is Certainty.LIKELY
    assert top(diagnosis) == "cudagraph_compile_pool"


def test_a_plain_forward_has_no_pools() -> None:
    assert "cudagraph_compile_pool" not in causes(failed(FORWARD, old_oom()))
