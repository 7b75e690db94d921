from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from oomph.evidence.sources.jsonlines import unwrap


def lines(*records):
    return "\n".join(json.dumps(record) for record in records)


def test_docker_json_file():
    text = lines(
        {"log": "step 1 loss 2.0\n", "stream": "stdout", "time": "2025-03-04T09:00:22.000712710Z"},
        {"log": "RuntimeError: x\n", "stream": "stderr", "time": "2025-03-04T09:00:23Z"},
    )
    assert unwrap(text) == (
        "2025-03-04T09:00:22.000712710Z step 1 loss 2.0\n2025-03-04T09:00:23.000Z RuntimeError: x"
    )


def test_loggers_with_their_tracebacks():
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: x'
    assert unwrap(
        lines({"event": "failed", "level": "error", "exception": trace})
    ) == "failed\r" + trace.replace("\n", "\r")
    assert unwrap(lines({"message": "failed\n" + trace, "exc_info": trace})).count("ValueError") == 1
    elastic = {"message": "failed", "error": {"stack_trace": trace}, "@timestamp": "2025-03-04T09:00:22.5Z"}
    assert "2025-03-04T09:00:22.500Z ValueError: x" in unwrap(lines(elastic))


def test_google_cloud():
    assert (
        unwrap(lines({"textPayload": "a", "severity": "INFO"}, {"jsonPayload": {"message": "b"}})) == "a\nb"
    )


def test_line_numbers_stay():
    text = "plain\n" + lines({"message": "one\ntwo"}, {"message": "three"}) + "\nplain"
    assert unwrap(text).split("\n") == ["plain", "one\rtwo", "three", "plain"]


def test_rank_and_numbers_of_a_structured_record():
    record = {"msg": "train", "step": 10, "mem_gib": 71.5, "rank": 3, "ok": True, "ts": 1741078822.5}
    assert unwrap(lines(record)) == "[rank3]: train step=10 mem_gib=71.5"


def test_collectors_prefixes_before_the_object():
    prefix = "2025-03-04T09:00:22.000712710Z stderr F "
    assert unwrap(prefix + lines({"message": "a\nb"})) == f"{prefix}a\r{prefix}b"


def test_everything_else_stays_as_it_is():
    for text in (
        "{'loss': 1.5, 'epoch': 0.1}",
        '{"loss": 1.5, "epoch": 0.1}',
        '{"train_batch_size": 8,\n "message": "not a record"\n}',
        '{"message": "cut sho',
        '{"message": 5}',
        "{" * 5000,
        '{"a":' * 5000 + "1" + "}" * 5000,
        "",
    ):
        assert unwrap(text) == text


@given(st.text(alphabet='{}[]":,\\nrt message log 1é\n\r\ud800', max_size=200))
def test_no_text_raises_or_changes_the_number_of_lines(text):
    assert unwrap(text).count("\n") == text.count("\n")
