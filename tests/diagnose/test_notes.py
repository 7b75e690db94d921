"""Numbers that cannot be, values that are not sizes, and input that was cut."""

from __future__ import annotations

from tests.diagnose.logs import FORWARD, causes, diagnosed, failed, mib, old_oom, oom, traceback


def noted(text: str) -> str:
    return " ".join(diagnosed(text).notes)


def test_a_sound_message_has_no_notes() -> None:
    assert failed(FORWARD, oom()).notes == ()


def test_reserved_below_allocated_is_a_made_up_log() -> None:
    # "35.00 GiB already allocated ... 0 bytes reserved in total": reserved is allocated + cached, never less
    notes = noted(traceback(FORWARD, old_oom(allocated="35.00 GiB", reserved="0 bytes")))
    assert "35.00 GiB" in notes
    assert "reserved" in notes
    assert "damaged or made up" in notes


def test_a_made_up_log_claims_no_fragmentation() -> None:
    diagnosis = diagnosed(traceback(FORWARD, old_oom(allocated="35.00 GiB", reserved="0 bytes")))
    assert "fragmentation" not in causes(diagnosis)


def test_allocated_above_the_card_on_linux_is_doubted() -> None:
    notes = noted(
        traceback(
            FORWARD, old_oom(total="8.00 GiB", free="0 bytes", allocated="14.10 GiB", reserved="14.30 GiB")
        )
    )
    assert "damaged or made up" in notes


def test_allocated_above_the_card_on_windows_is_shared_memory() -> None:
    text = traceback(
        FORWARD, old_oom(total="8.00 GiB", free="0 bytes", allocated="14.10 GiB", reserved="14.30 GiB")
    )
    text = text.replace("/workspace/", "C:\\work\\").replace("/opt/venv/lib/python3.11/", "C:\\venv\\Lib\\")
    notes = noted(text)
    assert "Windows counts shared system memory" in notes
    assert "made up" not in notes
    assert "0 bytes free is ordinary on Windows" in notes


def test_free_above_the_card() -> None:
    assert "free" in noted(traceback(FORWARD, old_oom(free="90.00 GiB")))


def test_two_to_the_sixty_fourth_is_no_size() -> None:
    text = traceback(FORWARD, oom(process="17179869184.00 GiB"))
    diagnosis = diagnosed(text)
    assert "2^64" in noted(text)
    assert diagnosis.incident.ledger.process_bytes is None
    assert diagnosis.incident.ledger.problems == ()


def test_zero_bytes_for_this_process_is_a_container() -> None:
    text = traceback(FORWARD, oom(process="0 bytes"))
    diagnosis = diagnosed(text)
    assert "container" in noted(text)
    assert diagnosis.incident.ledger.process_bytes is None
    assert "other_process" not in causes(diagnosis)


def test_this_process_under_another_pid_is_said() -> None:
    message = oom(
        total="39.39 GiB",
        free="0.19 GiB",
        process=None,
        others=[(2211, "39.20 GiB")],
        allocated="37.00 GiB",
        cached="1.30 GiB",
    )
    notes = noted(traceback(FORWARD, message))
    assert "Process 2211 is this process" in notes
    assert "39.20 GiB" in notes


def test_a_message_that_is_cut_off() -> None:
    whole = oom()
    assert "cut off" in noted(traceback(FORWARD, whole[: whole.index(" Of the allocated")]))


def test_rounding_alone_is_no_contradiction() -> None:
    # 1.05 + 78.11 = 79.16 > 79.15, within three times half of 0.01 GiB
    assert failed(FORWARD, oom(process="78.11 GiB")).notes == ()


def test_more_than_rounding_is_one() -> None:
    # 1.05 + 79.05 = 80.10: 0.95 GiB more than the card
    notes = noted(traceback(FORWARD, oom(process="79.05 GiB", allocated="77.40 GiB")))
    assert "damaged or made up" in notes


def test_what_was_dropped_is_said_with_its_line() -> None:
    text = "For example, you will see a message like this:\n\n" + oom() + "\n"
    (note,) = diagnosed(text).notes
    assert note.startswith("job0.log:3:")
    assert "example" in note


def test_the_small_pools_request_is_two_mebibytes() -> None:
    diagnosis = failed(
        FORWARD,
        oom("2.00 MiB", free="1.50 MiB", process="79.14 GiB", allocated="77.90 GiB", cached="0.60 GiB"),
    )
    assert diagnosis.incident.ledger.segment_bytes == mib(2)
    assert diagnosis.incident.ledger.short_by_bytes == mib(0.5)
