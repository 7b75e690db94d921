"""OOM208: allocated memory that rises from step to step."""

from __future__ import annotations

from oomph.diagnose.model import Certainty
from tests.diagnose.logs import BACKWARD, FORWARD, GIB, MODEL_TO, causes, failed, finding, oom, ruled_out, top


def logged(*sizes: float) -> str:
    """A loop that prints its own memory every hundred steps."""
    return "".join(
        f"step {100 * number} loss 2.31 memory allocated: {size:.2f} GiB\n"
        for number, size in enumerate(sizes, 1)
    )


def test_a_leak_rises_to_the_end() -> None:
    diagnosis = failed(FORWARD, oom(), before=logged(30.0, 36.5, 43.0, 49.5, 56.0, 62.5, 69.0))
    found = finding(diagnosis, "growth_over_steps")
    assert top(diagnosis) == "growth_over_steps"
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"first_bytes": 30 * GIB, "last_bytes": 69 * GIB, "readings": 7}
    assert found.actions[0] == "detach-kept"
    assert "30.00 GiB to 69.00 GiB" in found.says
    assert len(found.evidence) == 2


def test_the_failing_frame_does_not_matter() -> None:
    assert top(failed(BACKWARD, oom(), before=logged(30, 37, 44, 51, 58, 65, 72))) == "growth_over_steps"


def test_constant_memory_is_ruled_out_with_its_readings() -> None:
    diagnosis = failed(FORWARD, oom(), before=logged(70.1, 70.3, 70.2, 70.1, 70.3, 70.2, 70.2))
    assert "growth_over_steps" not in causes(diagnosis)
    assert "70.10 GiB to 70.20 GiB over 7 readings" in ruled_out(diagnosis, "growth_over_steps")


def test_a_warm_up_that_flattens_is_no_leak() -> None:
    # States appear after the first step, then nothing: the last third adds 0.1 of 30 GiB
    diagnosis = failed(FORWARD, oom(), before=logged(40, 69.8, 69.9, 69.9, 70.0, 70.0, 70.0, 70.0, 70.1))
    assert "growth_over_steps" not in causes(diagnosis)


def test_memory_that_goes_up_and_down_is_no_leak() -> None:
    diagnosis = failed(FORWARD, oom(), before=logged(40, 70, 45, 72, 42, 68, 44, 75))
    assert "growth_over_steps" not in causes(diagnosis)


def test_few_readings_that_do_not_double_are_no_trend() -> None:
    diagnosis = failed(FORWARD, oom(), before=logged(40, 50, 60, 70))
    assert "growth_over_steps" not in causes(diagnosis)
    assert "growth_over_steps" not in [one.cause for one in diagnosis.ruled_out]


def test_few_readings_that_double_are_a_suspicion() -> None:
    diagnosis = failed(FORWARD, oom(), before=logged(20, 36, 52, 68))
    assert finding(diagnosis, "growth_over_steps").certainty is Certainty.POSSIBLE
    assert top(diagnosis) == "activations"


def test_loading_grows_too_and_is_no_leak() -> None:
    diagnosis = failed(MODEL_TO, oom(), before=logged(10, 20, 30, 40, 50, 60, 70))
    assert top(diagnosis) == "static_state_too_big"
    assert "growth_over_steps" not in causes(diagnosis)
