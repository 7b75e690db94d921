"""Messages of loggers that print everything in one letter case."""

import pytest

from oomph.evidence.lines import build_document, letter_case
from oomph.evidence.messages import parse
from oomph.evidence.traces import parse as parse_traces

PROPER = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB. GPU 0 has a total capacity of 23.52 GiB "
    "of which 1.19 GiB is free. Process 4242 has 1.00 MiB memory in use. Including non-PyTorch memory, this process "
    "has 22.33 GiB memory in use. Of the allocated memory 21.40 GiB is allocated by PyTorch, with 10.00 MiB allocated "
    "in private pools (e.g., CUDA Graphs), and 512.00 MiB is reserved by PyTorch but unallocated. If reserved "
    "but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
)
OLD = (
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 1; 15.90 GiB total capacity; 14.50 GiB already "
    "allocated; 5.75 MiB free; 15.00 GiB reserved in total by PyTorch)"
)


@pytest.mark.parametrize("text", [PROPER, OLD])
def test_letters_come_back(text):
    assert letter_case.restore(text.lower()) == text
    assert letter_case.restore("note " + text.capitalize()).lower() == "note " + text.lower()
    assert letter_case.restore(text) == text


def test_numbers_are_read_to_the_byte_and_the_original_is_quoted():
    logged = f"2025-01-01 10:00:01 | trainer | error | {PROPER.lower()}"
    (failure,) = parse(build_document("x.log", [(1, f"epoch 3\n{logged}\nexit")]))
    assert failure.format == "F6_torchOOM"
    assert {name: size.bytes for name, size in failure.numbers.items()} == {
        "requested_bytes": 1342177280,  # 1.25 * 2**30
        "capacity_bytes": 25254407700,  # 23.52 * 2**30
        "free_bytes": 1277752771,  # 1.19 * 2**30
        "other_process_bytes": 1048576,  # 2**20
        "process_bytes": 23976654930,  # 22.33 * 2**30
        "allocated_bytes": 22978075034,  # 21.40 * 2**30
        "private_pool_bytes": 10485760,  # 10 * 2**20
        "unallocated_bytes": 536870912,  # 2**29
    }
    assert failure.quote.line == 2
    assert failure.quote.text == logged


def test_capitals():
    (failure,) = parse(build_document("x.log", [(1, f"ERROR {OLD.upper()}")]))
    assert failure.device == 1
    assert failure.numbers["requested_bytes"].bytes == 20 * 2**20
    assert failure.numbers["reserved_bytes"].bytes == 15 * 2**30
    assert failure.quote.text == f"ERROR {OLD.upper()}"


def test_the_quote_is_the_line_without_its_launcher_prefix():
    (failure,) = parse(build_document("x.log", [(1, f"[rank2]: {OLD.lower()}")]))
    assert failure.rank == 2
    assert failure.quote.text == OLD.lower()


def test_the_traceback_too():
    frame = '  file "/r/train.py", line 4, in step\n    loss.backward()'
    log = f"traceback (most recent call last):\n{frame}\n{OLD.lower()}"
    (trace,) = parse_traces(build_document("x.log", [(1, log)]))
    assert [(frame.file, frame.line, frame.function) for frame in trace.frames] == [
        ("/r/train.py", 4, "step")
    ]
    assert trace.exception == "RuntimeError"


def test_a_traceback_behind_a_prefix():
    rows = [
        "traceback (most recent call last):",
        '  file "/r/a.py", line 4, in step',
        "    loss.backward()",
        OLD.lower(),
    ]
    log = "\n".join(f"2025-01-01 10:00:01 | trainer | error | {row}" for row in rows)
    (trace,) = parse_traces(build_document("x.log", [(1, log)]))
    assert [(frame.line, frame.code) for frame in trace.frames] == [(4, "loss.backward()")]


@pytest.mark.parametrize(
    "line",
    [
        "step 1 used 2.00 gib of gpu 0",
        'copied file "/a/b", line by line',
        "process 12 has started",
        "İ" * 20,
        "",
    ],
)
def test_other_lines_stay(line):
    assert letter_case.restore(line) == line
    text = f"{line}\n{OLD.lower()}"
    assert build_document("x.log", [(1, text)]).lines[0].text == line
