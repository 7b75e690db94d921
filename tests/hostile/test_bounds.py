"""What a flood of one thing may cost: lines, failure texts and packed records have bounds."""

from __future__ import annotations

import io
import json

import pytest

from oomph.api import explain
from oomph.evidence import messages
from oomph.evidence.lines import build_document
from oomph.evidence.sources.decode import decode
from oomph.evidence.sources.limits import Limits, cost
from oomph.evidence.sources.merge import Piece, choose
from tests.hostile.shapes import message

#: 6 MiB are kept of a log; a line counts as 80 bytes at least.
MOST_LINES = (6 << 20) // 80


def explained(data: bytes):
    return explain(["-"], stdin=io.BytesIO(data))


def lines_of(diagnosis) -> int:
    return sum(len(document.lines) for document in diagnosis.evidence.documents)


@pytest.mark.parametrize("unit", [b"\n", b"x\n", b"\r", b"x\r", b" \n", b"\r\n"])
def test_a_flood_of_short_lines_is_not_kept_whole(unit):
    diagnosis = explained(unit * (3_000_000 // len(unit)) + b"the end\n")
    assert diagnosis.exit_code == 0
    assert lines_of(diagnosis) <= MOST_LINES


def test_the_failure_in_a_flood_of_empty_lines_is_found_with_its_line_number():
    diagnosis = explained(b"\n" * 700_000 + message(7).encode() + b"\n" * 700_000)
    assert diagnosis.exit_code == 1
    assert diagnosis.incident is not None
    assert diagnosis.incident.failure.quote.line == 700_001
    assert lines_of(diagnosis) <= MOST_LINES


def test_one_json_record_may_hold_a_whole_log():
    rows = ["step 1", *[""] * 600_000, message(3), "end"]
    record = json.dumps({"log": "\n".join(rows), "time": "2025-03-04T09:00:00.000000000Z", "rank": 3})
    diagnosis = explained(record.encode())
    assert diagnosis.exit_code == 1
    assert lines_of(diagnosis) <= MOST_LINES


def test_a_notebook_whose_output_is_longer_than_any_log():
    text = "\n" * 3_000_000 + message(3) + "\n" * 3_000_000
    output = {"output_type": "stream", "name": "stderr", "text": text}
    cells = [{"cell_type": "code", "source": [], "outputs": [output]}]
    diagnosis = explained(json.dumps({"nbformat": 4, "cells": cells}).encode())
    assert lines_of(diagnosis) <= MOST_LINES


def test_images_of_a_notebook_do_not_hide_its_error():
    image = {"output_type": "display_data", "data": {"image/png": "A" * 12_000_000}}
    error = {"output_type": "error", "ename": "OutOfMemoryError", "evalue": "", "traceback": [message(3)]}
    cells = [{"cell_type": "code", "source": [], "outputs": [image, error]}]
    diagnosis = explained(json.dumps({"nbformat": 4, "cells": cells}).encode())
    assert diagnosis.exit_code == 1


def test_failure_texts_beyond_ten_thousand_are_counted():
    text = "Killed\n" * (messages.MOST + 500)
    diagnosis = explained(text.encode())
    failures = diagnosis.evidence.failures
    assert len(failures) == messages.MOST
    assert failures[0].quote.line == 1
    assert failures[-1].quote.line == messages.MOST + 500
    assert any("500 more failure texts" in note for note in diagnosis.notes)


def test_failures_of_one_endless_line_share_its_text():
    document = build_document("x.log", [(1, "CUDA out of memory. Tried to allocate 2.00 GiB. " * 400)])
    texts = {id(failure.quote.text) for failure in messages.parse(document)}
    assert len(texts) <= len(document.lines)


def test_short_lines_cost_more_than_their_bytes():
    assert cost(b"x" * 1000) == 1000
    assert cost(b"\n" * 1000) == 80_000
    assert cost("\r" * 10) == 800


def test_the_budget_holds_for_a_piece_that_is_dense_at_its_end():
    text = b"y" * 500_000 + b"\n" * 100_000
    passages = choose([Piece(0, 1, text, 1)], 50_000, len(text))
    assert 0 < sum(cost(passage.text) for passage in passages) <= 50_000


def test_small_logs_are_read_whole_however_short_their_lines():
    diagnosis = explained(b"ab\n" * 50_000)
    assert lines_of(diagnosis) == 50_000
    assert Limits().whole == 1 << 20


def test_carriage_returns_before_a_line_end_go_in_linear_time():
    """The pattern must not try every carriage return of a long run that no line end follows."""
    text = decode(b"\r" * 200_000 + b"x\r\r\ny")
    assert text == "\r" * 200_000 + "x\ny"


def test_a_desert_of_white_space_is_narrowed():
    (line,) = build_document("x.log", [(1, "a" + " \t" * 9000 + "b")]).lines
    assert line.text == "a" + " " * 200 + "b"


def test_code_of_a_frame_is_cut():
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    '
        + "optimizer_" * 1500
        + "\n"
        + message(1)
    )
    diagnosis = explained(text.encode())
    assert diagnosis.incident is not None
    assert diagnosis.incident.traceback is not None
    assert len(diagnosis.incident.traceback.frames[0].code) == 1000
