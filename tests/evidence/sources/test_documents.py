from __future__ import annotations

import json

from oomph.evidence.sources import load
from oomph.evidence.sources.documents import document_bytes, extract

STACK = (
    'Traceback (most recent call last):\n  File "/w/train.py", line 7, in main\n    step()\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.\n"
)


def error_file(timestamp: object = "1741078822") -> str:
    """As torch's error handler writes it (json.dump of one dict)."""
    extra = {"py_callstack": STACK, "timestamp": timestamp}
    return json.dumps({"message": {"message": "OutOfMemoryError: CUDA out of memory.", "extraInfo": extra}})


def notebook(**extra: object) -> dict[str, object]:
    """A notebook as nbformat 4 stores it."""
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# CUDA out of memory, explained\n"]},
        {
            "cell_type": "code",
            "execution_count": 1,
            "metadata": {},
            "source": ["train()"],
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["step 1\n", "step 2\n"]},
                {
                    "output_type": "error",
                    "ename": "OutOfMemoryError",
                    "evalue": "CUDA out of memory.",
                    "traceback": ["\x1b[0;31m-----\x1b[0m", "OutOfMemoryError: CUDA out of memory."],
                },
            ],
        },
        {
            "cell_type": "code",
            "execution_count": 2,
            "metadata": {},
            "source": "x",
            "outputs": [
                {
                    "output_type": "execute_result",
                    "data": {"text/plain": "'done'", "image/png": "iVBO"},
                    "metadata": {},
                    "execution_count": 2,
                }
            ],
        },
    ]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **extra}


def texts(document):
    return [line.text for line in document.lines]


def test_an_error_file_is_its_traceback_in_one_line_of_the_file(tmp_path):
    path = tmp_path / "attempt_0" / "1" / "error.json"
    path.parent.mkdir(parents=True)
    path.write_text(error_file())
    [document] = load([path])
    assert texts(document) == STACK.rstrip("\n").split("\n")
    assert {line.number for line in document.lines} == {1}
    assert (document.rank, document.attempt) == (1, 0)
    # 1741078822 is 2025-03-04 09:00:22 UTC.
    assert {line.time for line in document.lines} == {1741078822.0}


def test_an_error_file_may_lack_everything_but_a_message():
    for timestamp in (None, "soon", -5, 10**30, {}):
        found = extract(error_file(timestamp))
        assert found is not None
        assert found.text.startswith("Traceback")
    assert extract('{"message": "Signal 9 (SIGKILL) received by PID 7"}').text.startswith("Signal 9")
    bare = {"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": ""}}}
    assert extract(json.dumps(bare)).text == "ValueError: x"


def test_other_json_is_not_an_error_file():
    for text in (
        '{"message": {"a": 1}}',
        '{"message": "x", "level": "INFO"}',
        "[1]",
        "{",
        '{"message": 3}',
        "1",
    ):
        assert extract(text) is None


def test_a_notebook_is_its_outputs(tmp_path):
    path = tmp_path / "train.json"  # the name says nothing
    path.write_text(json.dumps(notebook(), indent=1))
    [document] = load([path])
    assert texts(document) == [
        "step 1",
        "step 2",
        "-----",
        "OutOfMemoryError: CUDA out of memory.",
        "'done'",
    ]
    assert document.notes == ("line numbers count within the notebook's outputs",)


def test_a_notebook_of_version_3(tmp_path):
    cell = {"cell_type": "code", "outputs": [{"output_type": "pyout", "text": ["a\n", "b"]}]}
    path = tmp_path / "old.ipynb"
    path.write_text(json.dumps({"worksheets": [{"cells": [cell]}], "nbformat": 3}))
    assert texts(load([path])[0]) == ["a", "b"]


def test_a_notebook_larger_than_the_limit_of_a_log_is_still_a_notebook(tmp_path):
    path = tmp_path / "big.ipynb"
    path.write_text(json.dumps(notebook(metadata={"picture": "x" * 3_000_000})))
    assert texts(load([path])[0])[0] == "step 1"


def test_damaged_notebooks_are_read_as_text(tmp_path):
    path = tmp_path / "cut.ipynb"
    path.write_text(json.dumps(notebook(), indent=1)[:-40])
    assert any("CUDA out of memory." in text for text in texts(load([path])[0]))


def test_odd_cells_do_not_raise():
    for cells in (
        [None],
        [{"outputs": None}],
        [{"outputs": [3, {"output_type": "error"}]}],
        [{"outputs": {}}],
    ):
        assert extract(json.dumps({"cells": cells, "nbformat": 4})) is not None
    assert extract('{"cells": [1]}') is None


def test_only_json_is_tried():
    assert document_bytes(b'step 1 {"cells"') == 0
    assert document_bytes(b'{"loss": 1}') == 0
    assert document_bytes(b'{"message": {}}') > 0
