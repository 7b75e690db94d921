"""OOM104: the card had room and the request was refused all the same."""

from __future__ import annotations

from oomph.diagnose.model import Certainty
from tests.diagnose.logs import (
    FORWARD,
    MODEL_TO,
    causes,
    diagnosed,
    failed,
    finding,
    gib,
    old_oom,
    oom,
    ruled_out,
    top,
    traceback,
)

#: Three quarters of the card are free, and the program gave itself a tenth: 79.15 = 70.55 free + 8.60 this process.
CAPPED = oom(
    "1.00 GiB",
    free="70.55 GiB",
    process="8.60 GiB",
    allocated="7.20 GiB",
    cached="0.60 GiB",
    allowed="7.91 GiB",
)


def test_a_fraction_that_the_message_prints_is_certain() -> None:
    # 7.20 + 0.60 + 1.00 = 8.80 > 7.91 allowed
    diagnosis = failed(MODEL_TO, CAPPED)
    found = finding(diagnosis, "cap_or_driver_limit")
    assert top(diagnosis) == "cap_or_driver_limit"
    assert found.certainty is Certainty.CERTAIN
    assert found.numbers == {"limit_bytes": gib(7.91), "request_bytes": gib(1.00)}
    assert found.actions == ("remove-cap",)
    assert "70.55 GiB were free" in found.says


def test_a_fraction_in_the_old_message() -> None:
    message = old_oom(
        "1.00 GiB", free="70.55 GiB", allocated="7.20 GiB", reserved="7.80 GiB", allowed="7.91 GiB"
    )
    diagnosis = failed(FORWARD, message)
    assert top(diagnosis) == "cap_or_driver_limit"
    assert finding(diagnosis, "cap_or_driver_limit").numbers["limit_bytes"] == gib(7.91)


def test_a_fraction_of_the_whole_card_is_no_limit() -> None:
    # set_per_process_memory_fraction(1.0) prints the whole card; only 1.05 GiB are free
    diagnosis = failed(FORWARD, oom(allowed="79.15 GiB"))
    assert "cap_or_driver_limit" not in causes(diagnosis)
    assert "79.15 GiB" in ruled_out(diagnosis, "cap_or_driver_limit")


def test_a_fraction_that_was_not_reached_is_ruled_out_with_the_sum() -> None:
    # 30.00 + 0.50 + 2.00 = 32.50 GiB of 39.50 allowed, because a stranger has the rest of the card
    message = oom(
        free="1.05 GiB",
        others=[(77, "46.70 GiB")],
        process="31.40 GiB",
        allocated="30.00 GiB",
        cached="0.50 GiB",
        allowed="39.50 GiB",
    )
    diagnosis = failed(FORWARD, message)
    assert top(diagnosis) == "other_process"
    assert "32.50 GiB" in ruled_out(diagnosis, "cap_or_driver_limit")


def test_free_far_above_the_request_is_a_limit_of_the_driver_or_the_machine() -> None:
    diagnosis = failed(
        MODEL_TO, oom(free="61.30 GiB", process="17.85 GiB", allocated="16.40 GiB", cached="0.60 GiB")
    )
    found = finding(diagnosis, "cap_or_driver_limit")
    assert top(diagnosis) == "cap_or_driver_limit"
    assert found.certainty is Certainty.LIKELY
    assert found.numbers == {"free_bytes": gib(61.30), "request_bytes": gib(2.00)}
    assert found.actions == ("driver-limit",)


def test_a_small_margin_is_ruled_out_with_its_size() -> None:
    # 2.30 - 2.00 = 0.30 GiB = 307.20 MiB; 79.15 = 2.30 + 76.85
    message = oom(free="2.30 GiB", process="76.85 GiB", allocated="75.40 GiB", cached="0.85 GiB")
    diagnosis = failed(FORWARD, message)
    assert "cap_or_driver_limit" not in causes(diagnosis)
    assert "307.20 MiB" in ruled_out(diagnosis, "cap_or_driver_limit")


def test_a_request_beyond_free_memory_needs_no_limit() -> None:
    diagnosis = failed(FORWARD, oom())
    assert "cap_or_driver_limit" not in causes(diagnosis)
    assert "cap_or_driver_limit" not in [one.cause for one in diagnosis.ruled_out]


def test_a_request_that_was_rejected_before_it_was_tried() -> None:
    error = (
        "torch.OutOfMemoryError: CUDA out of memory. Allocation was preemptively rejected because it would exceed "
        "per_process_memory_fraction limit. Requested size: 3.00 GiB."
    )
    diagnosis = failed(FORWARD, error)
    assert top(diagnosis) == "cap_or_driver_limit"
    assert finding(diagnosis, "cap_or_driver_limit").certainty is Certainty.CERTAIN


def test_the_asynchronous_allocator_with_a_limit_and_without() -> None:
    lines = (
        "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\n"
        "Currently allocated     : 7.10 GiB\nRequested               : 1.00 GiB\nDevice limit            : 79.15 GiB\n"
        "Free (according to CUDA): {free}\n"
        "PyTorch limit (set by user-supplied memory fraction)\n                        : {limit}\n"
    )
    capped = diagnosed(traceback(FORWARD, lines.format(free="70.90 GiB", limit="7.91 GiB")))
    assert top(capped) == "cap_or_driver_limit"
    assert finding(capped, "cap_or_driver_limit").numbers["limit_bytes"] == gib(7.91)
    unlimited = diagnosed(traceback(FORWARD, lines.format(free="0.40 GiB", limit="17179869184.00 GiB")))
    assert "cap_or_driver_limit" not in causes(unlimited)
    assert any("2^64" in note for note in unlimited.notes)


def test_xpu_refuses_one_allocation_of_more_than_four_gib() -> None:
    error = (
        "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total capacity of 15.56 "
        "GiB. Of the allocated memory 3.10 GiB is allocated by PyTorch, and 120.00 MiB is reserved by PyTorch but "
        "unallocated. Please use `empty_cache` to release all unoccupied cached memory."
    )
    found = finding(failed(FORWARD, error), "cap_or_driver_limit")
    assert found.certainty is Certainty.LIKELY
    assert found.actions[0] == "split-tensor"
