r"""Line ends that something wrote out: "#012", "\n", "%0A", and messages that travel in a form or a URL."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.evidence.lines import build_document, escapes

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/opt/r/train.py", line 44, in <module>',
    "    loss.backward()",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 208.00 MiB.",
]


def texts(line: str) -> list[str]:
    """The lines that a document of one physical line has."""
    document = build_document("x.log", [(1, line)])
    assert {one.number for one in document.lines} == {1}
    return [one.text for one in document.lines]


def test_rsyslog_writes_a_line_feed_as_012():
    line = "May 12 01:02:09 n4 trainer[771]: crashed#012" + "#012".join(TRACEBACK)
    assert texts(line) == ["May 12 01:02:09 n4 trainer[771]: crashed", *TRACEBACK]


def test_rsyslog_with_another_sign_tabs_and_colours():
    line = 'ml: RuntimeError\\012Traceback (most recent call last):\\012\\011File "a.py", line 1, in f\\012\\033[31mx'
    assert texts(line) == [
        "ml: RuntimeError",
        "Traceback (most recent call last):",
        '\tFile "a.py", line 1, in f',
        "x",
    ]


def test_012_splits_an_error_without_a_traceback():
    assert texts("a[1]: RuntimeError: CUDA out of memory.#012while saving") == [
        "a[1]: RuntimeError: CUDA out of memory.",
        "while saving",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "shard #012 of 100 written",
        "job#012 started",
        "RuntimeError in batch #012: out of memory",
        "IndexError while reading file #012",
    ],
)
def test_012_that_counts_something(line):
    assert texts(line) == [line]


def test_lines_of_one_physical_line_have_one_writer():
    log = '2025-05-12T01:02:09.123Z [rank3]: died#012Traceback (most recent call last):#012  File "a.py", line 1, in f'
    lines = build_document("x.log", [(7, f"before\n{log}\nafter")]).lines
    assert [line.number for line in lines] == [7, 8, 8, 8, 9]
    assert [line.rank for line in lines] == [None, 3, 3, 3, None]
    assert {line.stream for line in lines[1:4]} == {"rank3"}
    assert lines[1].time == lines[2].time == lines[3].time
    assert lines[1].time is not None


def test_a_json_string_in_a_record_of_unknown_shape():
    line = json.dumps({"level": "error", "err": "\n".join(TRACEBACK), "n": 1})
    first, *middle, last = texts(line)
    assert first.endswith(TRACEBACK[0])
    assert middle == TRACEBACK[1:3]
    assert last.startswith(TRACEBACK[3])


def test_a_record_inside_a_record():
    inner = json.dumps({"err": "\n".join(TRACEBACK)})
    line = "wrapped=" + json.dumps({"payload": inner})
    rows = texts(line)
    assert rows[1:3] == TRACEBACK[1:3]
    assert rows[3].startswith(TRACEBACK[3])


def test_a_windows_path_in_a_json_string():
    trace = 'Traceback (most recent call last):\n  File "C:\\new\\train.py", line 2, in f\nValueError: x'
    assert texts("e=" + json.dumps(trace))[1] == '  File "C:\\new\\train.py", line 2, in f'


def test_a_logger_that_only_replaces_line_feeds():
    line = 'E Traceback (most recent call last):\\n  File "C:\\new\\train.py", line 2, in f\\nValueError: x'
    assert texts(line) == [
        "E Traceback (most recent call last):",
        '  File "C:\\new\\train.py", line 2, in f',
        "ValueError: x",
    ]


def test_the_repr_of_format_exception():
    line = "error: " + repr([f"{row}\n" for row in TRACEBACK])
    rows = texts(line)
    assert rows[1:3] == TRACEBACK[1:3]
    assert rows[3] == TRACEBACK[3]


def test_frames_without_their_header():
    line = 'msg="failed\\n  File \\"a.py\\", line 1, in f\\n    step()"'
    assert texts(line) == ['msg="failed', '  File "a.py", line 1, in f', '    step()"']


def test_a_workflow_command_of_github():
    line = "::error::" + "%0A".join(TRACEBACK)
    assert texts(line) == ["::error::" + TRACEBACK[0], *TRACEBACK[1:]]


def test_a_form():
    line = (
        "  payload: text=run+%23+7%0ACUDA+out+of+memory.+Tried+to+allocate+2.00+GiB.&channel=%23runs end + 1"
    )
    assert texts(line) == [
        "  payload: text=",
        "run # 7",
        "CUDA out of memory. Tried to allocate 2.00 GiB.",
        "channel=",
        "#runs end + 1",
    ]


@pytest.mark.parametrize(
    "query",
    [
        "CUDA%20out%20of%20memory.%20Tried%20a%2Bb",
        "CUDA%2520out%2520of%2520memory.%2520Tried%2520a%252Bb",
        "CUDA+out+of+memory.+Tried+a%2Bb",
        "CUDA%2Bout%2Bof%2Bmemory.%2BTried%2Ba%252Bb",
    ],
)
def test_a_url(query):
    assert texts(f"GET https://h.example/hook?m={query} 200") == [
        "GET https://h.example/hook",
        "m=",
        "CUDA out of memory. Tried a+b 200",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "progress 100%0A1",
        "path C:\\new\\file out",
        "a+b=c&d out%20 of",
        "step 1 loss 2.0",
        '{"a": "b\\nc"}',
    ],
)
def test_lines_that_are_just_lines(line):
    assert escapes.unfold(line) is None


def test_a_flood_of_line_ends_keeps_the_beginning_and_the_end():
    rows = texts("RuntimeError: first" + "#012" * 50_000 + "last")
    assert len(rows) == 10_000
    assert (rows[0], rows[-1]) == ("RuntimeError: first", "last")


_PIECES = st.sampled_from(
    [
        "#012", "\\012", "\\n", "\\\\n", "\\", "\\u", "\\ud800", "%0A", "%", "out+of+memory", "out%20of%20memory", "&",
        "=", "?", '"', "'", ", ", "Traceback (most recent call last):", '  File "', "Error", " ", "x", "%2", "#033",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(_PIECES, max_size=20).map("".join))
def test_nothing_raises(line):
    build_document("x", [(1, line)])
