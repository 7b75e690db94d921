"""Did the job live on: caught, recovered, fatal, a consequence, or never a failure."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Outcome
from tests.diagnose.logs import BACKWARD, FORWARD, diagnosed, oom, steps, top, traceback

CAUGHT = f"WARNING: caught CUDA OOM, halving the batch: {oom(error='')}\n"
FATAL = traceback(BACKWARD, oom("512.00 MiB", allocated="76.90 GiB", cached="0.60 GiB"))
TABLE = (
    "Root Cause (first observed failure):\n[0]:\n  time      : 2026-03-04_10:11:12\n  host      : node1\n"
    "  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 4242)\n  error_file: <N/A>\n"
)


def statuses(text: str) -> list[str]:
    return [one.status for one in diagnosed(text).incidents]


def test_nothing_follows_a_fatal_failure() -> None:
    diagnosis = diagnosed(steps(1, 20) + traceback(FORWARD, oom()))
    assert (diagnosis.outcome, diagnosis.exit_code) == (Outcome.FAILED, 1)
    assert diagnosis.incident.status == "fatal"


def test_recovered_by_progress() -> None:
    diagnosis = diagnosed(steps(1, 20) + CAUGHT + steps(21, 60))
    assert (diagnosis.outcome, diagnosis.exit_code) == (Outcome.RECOVERED, 0)
    assert [one.status for one in diagnosis.incidents] == ["caught"]
    assert "recovered" in diagnosis.summary


def test_recovered_by_a_line_that_says_that_it_ended_well() -> None:
    diagnosis = diagnosed(CAUGHT + "retrying with batch size 8\nTraining completed.\n")
    assert (diagnosis.outcome, diagnosis.exit_code) == (Outcome.RECOVERED, 0)


def test_one_more_step_proves_nothing() -> None:
    diagnosis = diagnosed(steps(1, 20) + traceback(FORWARD, oom()) + steps(21, 21))
    assert diagnosis.outcome is Outcome.FAILED


def test_a_bar_that_is_drawn_again_is_no_progress() -> None:
    again = "step 20 loss 2.9800 lr 1e-4\n" * 5
    assert diagnosed(steps(1, 20) + traceback(FORWARD, oom()) + again).outcome is Outcome.FAILED


def test_caught_twice_and_then_fatal() -> None:
    log = steps(1, 20) + CAUGHT + steps(21, 60) + CAUGHT + steps(61, 99) + FATAL
    diagnosis = diagnosed(log)
    assert [one.status for one in diagnosis.incidents] == ["caught", "caught", "fatal"]
    assert diagnosis.outcome is Outcome.FAILED
    assert diagnosis.incident is diagnosis.incidents[2]
    assert str(diagnosis.phase.phase) == "backward"


def test_caught_with_an_open_end_is_a_failure_not_a_recovery() -> None:
    assert diagnosed(steps(1, 20) + CAUGHT).outcome is Outcome.FAILED


def test_a_launcher_that_blames_the_rank_later_undoes_the_recovery() -> None:
    log = steps(1, 20) + traceback(FORWARD, oom()) + steps(21, 25) + TABLE
    diagnosis = diagnosed(log)
    assert diagnosis.outcome is Outcome.FAILED
    assert diagnosis.incident.status == "fatal"


def test_a_launcher_that_reports_another_error_does_not() -> None:
    other = traceback(["data.py:5 in load: raise ValueError(path)"], "ValueError: no such shard")
    log = steps(1, 20) + traceback(FORWARD, oom()) + steps(21, 60) + other + TABLE
    diagnosis = diagnosed(log)
    assert diagnosis.outcome is Outcome.RECOVERED
    assert any("no such shard" in quote.text for quote in diagnosis.other_errors)


def test_a_success_line_before_a_failed_process_is_no_success() -> None:
    log = traceback(FORWARD, oom()) + "Training completed.\n" + TABLE
    assert diagnosed(log).outcome is Outcome.FAILED


def test_in_a_shared_file_other_ranks_go_on_for_a_while() -> None:
    before = "world_size: 8\n" + steps(1, 20)
    assert diagnosed(before + traceback(FORWARD, oom()) + steps(21, 30)).outcome is Outcome.FAILED
    assert diagnosed(before + traceback(FORWARD, oom()) + steps(21, 90)).outcome is Outcome.RECOVERED


def test_another_ranks_steps_are_not_the_failed_ranks() -> None:
    alive = "".join(f"[rank1]: step {n} loss 2.1\n" for n in range(21, 60))
    log = traceback(FORWARD, oom(), prefix="[rank0]: ") + alive
    assert diagnosed(log).outcome is Outcome.FAILED


def test_a_kill_after_an_out_of_memory_error_is_its_consequence() -> None:
    killed = (
        "E0304 torch.distributed.elastic.multiprocessing.api: failed (exitcode: -9) local_rank: 1 "
        "(pid: 4243) of binary\n"
    )
    diagnosis = diagnosed(traceback(FORWARD, oom(), prefix="[rank0]: ") + killed)
    assert statuses(traceback(FORWARD, oom(), prefix="[rank0]: ") + killed) == ["fatal", "consequence"]
    assert top(diagnosis) == "activations"


def test_a_broken_context_makes_library_errors_no_memory_failure() -> None:
    log = (
        "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward: block: [0,0,0], thread: [7,0,0] "
        "Assertion `t >= 0` "
        "failed.\n"
        + traceback(
            FORWARD,
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        )
    )
    diagnosis = diagnosed(log)
    assert (diagnosis.outcome, diagnosis.exit_code) == (Outcome.NO_OOM, 0)
    assert any("device-side assert" in note for note in diagnosis.notes)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_recovered_job_lists_every_failure(count: int) -> None:
    log = steps(1, 10)
    for number in range(1, count + 1):
        log += CAUGHT + steps(10 * number + 1, 10 * number + 10)
    diagnosis = diagnosed(log)
    assert diagnosis.outcome is Outcome.RECOVERED
    assert len(diagnosis.incidents) == count


def test_steps_that_a_dying_process_still_held_prove_nothing():
    """stdout in a file is written in blocks; the last one stands behind the traceback."""
    frames = ("train.py:120 in <module>: main()", "train.py:70 in main: train(cfg)", *FORWARD)
    held = "".join(f"step {number} loss 2.3\n" for number in range(21, 61))
    assert diagnosed(traceback(frames, oom()) + held).exit_code == 1
    # Where a restart speaks in between, or the steps are more than a block (8,192 / 16 bytes = 512), it lives on.
    assert diagnosed(traceback(frames, oom()) + "Starting worker\n" + held).exit_code == 0
    many = "".join(f"step {number} loss 2.3\n" for number in range(21, 900))
    assert diagnosed(traceback(frames, oom()) + many).exit_code == 0
