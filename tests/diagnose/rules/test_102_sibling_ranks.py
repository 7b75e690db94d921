"""OOM102: other ranks of the same job on this rank's GPU."""

from __future__ import annotations

from oomph.diagnose.model import Certainty
from tests.diagnose.logs import FORWARD, MODEL_TO, causes, failed, finding, gib, mib, oom, top

RANKS = "".join(f"[init] rank {rank} pid {5000 + rank} device cuda:{rank}\n" for rank in range(4))
#: 79.15 = 0.25 free + 3 x 19.30 siblings + 21.00 this process
CROWDED = oom(
    free="0.25 GiB",
    others=[(5001, "19.30 GiB"), (5002, "19.30 GiB"), (5003, "19.30 GiB")],
    process="21.00 GiB",
    allocated="19.80 GiB",
    cached="0.60 GiB",
)


def test_pids_that_the_log_names_as_ranks_are_certain() -> None:
    diagnosis = failed(MODEL_TO, CROWDED, before=RANKS)
    found = finding(diagnosis, "sibling_ranks_on_one_gpu")
    assert top(diagnosis) == "sibling_ranks_on_one_gpu"
    assert found.certainty is Certainty.CERTAIN
    assert found.numbers == {"siblings_bytes": 3 * gib(19.30), "siblings": 3}
    assert found.actions[0] == "set-device"
    assert "other_process" not in causes(diagnosis)  # they are no strangers


def test_neighbouring_pids_with_the_same_memory_in_a_job_with_ranks_are_likely() -> None:
    diagnosis = failed(MODEL_TO, CROWDED, before="world_size: 4\n")
    assert top(diagnosis) == "sibling_ranks_on_one_gpu"
    assert finding(diagnosis, "sibling_ranks_on_one_gpu").certainty is Certainty.LIKELY


def test_contexts_of_all_other_ranks() -> None:
    # Seven bare contexts, one for each rank that called `.cuda()` before set_device: 7 x 460 = 3,220 MiB.
    message = oom(
        "1.50 GiB",
        free="0.40 GiB",
        others=[(6100 + rank, "460.00 MiB") for rank in range(1, 8)],
        process="75.60 GiB",
        allocated="74.10 GiB",
        cached="0.90 GiB",
    )
    found = finding(failed(FORWARD, message, before="world_size: 8\n"), "sibling_ranks_on_one_gpu")
    assert found.numbers["siblings_bytes"] == 7 * mib(460)
    assert found.certainty is Certainty.LIKELY  # 3.14 + 0.40 GiB >= 1.50 GiB


def test_siblings_that_would_not_have_made_room_are_possible() -> None:
    message = oom(
        "6.00 GiB",
        free="0.40 GiB",
        others=[(6100 + rank, "460.00 MiB") for rank in range(1, 8)],
        process="75.60 GiB",
        allocated="74.10 GiB",
        cached="0.90 GiB",
    )
    diagnosis = failed(FORWARD, message, before="world_size: 8\n")
    assert finding(diagnosis, "sibling_ranks_on_one_gpu").certainty is Certainty.POSSIBLE
    assert top(diagnosis) == "activations"


def test_the_same_pids_in_a_job_of_one_process_are_strangers() -> None:
    diagnosis = failed(MODEL_TO, CROWDED, before="world_size: 1\n")
    assert top(diagnosis) == "other_process"
    assert "sibling_ranks_on_one_gpu" not in causes(diagnosis)
