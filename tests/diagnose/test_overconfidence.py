"""Texts that look like a failure or carry numbers that cannot be; each was once answered too surely."""

from __future__ import annotations

import pytest

from oomph.diagnose.model import Certainty, Outcome
from tests.diagnose.logs import BACKWARD, FORWARD, diagnosed, failed, finding, gib, oom, steps, top, traceback

QUESTION = (
    'Q: My training crashes with "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB '
    "(GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated; 1.00 GiB free; 6.50 GiB reserved in total by "
    'PyTorch)". Why?'
)


def test_decimal_commas_are_not_thousands() -> None:
    message = oom("2,50 GiB", total="79,15 GiB", free="1,02 GiB", process="78,12 GiB", allocated="74,60 GiB")
    diagnosis = failed(BACKWARD, message)
    assert diagnosis.incident is not None
    numbers = diagnosis.incident.failure.numbers
    assert numbers["requested_bytes"].bytes == gib(2.50)
    assert numbers["capacity_bytes"].bytes == gib(79.15)


def test_a_thousands_comma_stays_one() -> None:
    diagnosis = failed(BACKWARD, oom("1,044.48 MiB"))
    assert diagnosis.incident is not None
    assert diagnosis.incident.failure.numbers["requested_bytes"].bytes == round(1044.48 * 2**20)


@pytest.mark.parametrize(
    "line",
    [
        "OOMKilled: false",
        "State:\n  OOMKilled: False\n  ExitCode: 0",
        "slurmstepd: error: Detected 0 oom_kill events in StepId=12.0",
        "CUDA error: out of memory occurred 0 times",
        "exit code 137 means the container was killed",
        QUESTION,
    ],
)
def test_denials_and_quotations_are_no_failures(line: str) -> None:
    diagnosis = diagnosed(steps(1, 3) + line + "\n" + steps(4, 4))
    assert diagnosis.outcome is Outcome.NO_OOM, diagnosis.summary


def test_the_kernel_killed_somebody_else() -> None:
    diagnosis = diagnosed(steps(1, 3) + "Out of memory: Killed process 777 (chrome) total-vm:9000000kB\n")
    assert finding(diagnosis, "host_ram").certainty is Certainty.POSSIBLE
    ours = diagnosed(steps(1, 3) + "Out of memory: Killed process 777 (python3) total-vm:9000000kB\n")
    assert finding(ours, "host_ram").certainty is Certainty.CERTAIN


def test_a_warning_does_not_take_the_next_failures_traceback() -> None:
    log = "WARNING: " + oom("2.50 GiB", error="", hint="") + " retrying with batch 4\n"
    diagnosis = diagnosed(log + traceback(BACKWARD, oom("1.50 GiB")))
    assert diagnosis.incident is not None
    assert diagnosis.incident.failure.numbers["requested_bytes"].bytes == gib(1.50)
    assert [one.status for one in diagnosis.incidents] == ["caught", "fatal"]


def test_timestamps_order_what_was_put_together() -> None:
    late = traceback(FORWARD, oom(gpu=1), prefix="2025-01-01T00:00:05Z [rank1]: ")
    early = traceback(FORWARD, oom(gpu=0), prefix="2025-01-01T00:00:01Z [rank0]: ")
    assert diagnosed(late + early).ranks.first == 0


def test_neighbours_that_do_not_fit_on_the_card_are_not_blamed() -> None:
    """78.10 GiB of this process and 1.05 GiB free leave nothing of 79.15 GiB for 80 GiB of others."""
    diagnosis = failed(FORWARD, oom(others=((999, "40.00 GiB"), (998, "40.00 GiB"))))
    assert finding(diagnosis, "other_process").certainty is Certainty.POSSIBLE
    assert "both cannot be" in finding(diagnosis, "other_process").says


def test_sizes_that_contradict_each_other_make_nothing_likely() -> None:
    diagnosis = failed(FORWARD, oom(allocated="500.00 GiB"))
    assert all(one.certainty is Certainty.POSSIBLE for one in diagnosis.findings)


@pytest.mark.parametrize("request_size", ["4096.00 GiB", "8589934591.99 GiB"])
def test_a_request_of_many_cards_is_not_the_batch(request_size: str) -> None:
    """4096 / 79.15 = 51 cards."""
    diagnosis = failed(FORWARD, oom(request_size))
    assert finding(diagnosis, "activations").certainty is Certainty.POSSIBLE
    assert "no batch size explains that" in finding(diagnosis, "activations").says
    assert diagnosis.findings[0].actions[0] != "micro-batch"


def test_pods_with_whole_seconds() -> None:
    log = traceback(BACKWARD, oom(), prefix="[pod/trainer-worker-0/pytorch] 2025-01-01T00:00:09Z ")
    assert top(diagnosed(log)) == "activations"
    phase = diagnosed(log).phase
    assert phase is not None
    assert phase.evidence == "frame"


def test_a_terminal_title_that_does_not_end_hides_nothing() -> None:
    assert diagnosed("\x1b]0;title " + oom() + "\n").outcome is Outcome.FAILED


@pytest.mark.parametrize(
    "size", ["-2.50 GiB", "nan GiB", "0 bytes", "9" * 30 + " GiB", "9" * 4000 + ".00 GiB"]
)
def test_a_request_that_is_no_size_costs_the_other_sizes_nothing(size: str) -> None:
    diagnosis = failed(BACKWARD, oom(size))
    assert diagnosis.incident is not None
    assert diagnosis.incident.ledger.segment_bytes is None
    assert diagnosis.incident.failure.numbers["free_bytes"].bytes == gib(1.05)
    assert diagnosis.incident.failure.numbers["allocated_bytes"].bytes == gib(76.40)
    assert any("size that is none" in note for note in diagnosis.notes)


def test_free_memory_that_is_no_size_costs_the_rest_nothing() -> None:
    diagnosis = failed(BACKWARD, oom(free="-1.05 GiB"))
    assert diagnosis.incident is not None
    numbers = diagnosis.incident.failure.numbers
    assert "free_bytes" not in numbers
    assert numbers["allocated_bytes"].bytes == gib(76.40)
