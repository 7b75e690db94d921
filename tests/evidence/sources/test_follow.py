from __future__ import annotations

import os

import pytest

from oomph.evidence.sources import Follower


@pytest.fixture
def path(tmp_path):
    return tmp_path / "train.log"


def append(path, data):
    with path.open("ab") as file:
        file.write(data)


def test_a_growing_file(path):
    follower = Follower(path)
    assert follower.poll() is None  # it need not exist yet
    append(path, b"one\ntw")
    assert follower.poll() == "one\n"
    assert follower.line == 1
    assert follower.poll() is None
    append(path, b"o\r\nthree\n")
    assert follower.poll() == "two\nthree\n"
    assert follower.line == 2
    append(path, b"four\n")
    assert follower.poll() == "four\n"
    assert follower.line == 4
    follower.close()


def test_the_last_line_without_end_can_be_asked_for(path):
    with Follower(path) as follower:
        append(path, b"one\nCUDA out of memory.")
        assert follower.poll() == "one\n"
        assert follower.rest() == "CUDA out of memory."
        assert follower.line == 2
        assert follower.rest() == ""


def test_characters_cut_between_polls(path):
    data = "erschöpft 内存\n".encode()
    with Follower(path) as follower:
        for byte in data[:-1]:
            append(path, bytes([byte]))
            assert follower.poll() is None
        append(path, data[-1:])
        assert follower.poll() == "erschöpft 内存\n"


def test_utf16(path):
    with Follower(path) as follower:
        append(path, "\ufeffone\r\n".encode("utf-16-le"))
        assert follower.poll() == "one\n"
        append(path, "zwei – 2\r\n".encode("utf-16-le"))
        assert follower.poll() == "zwei – 2\n"


def test_a_file_that_was_cut_back_is_read_again(path):
    with Follower(path) as follower:
        append(path, b"one\ntwo\nhalf")
        assert follower.poll() == "one\ntwo\n"
        path.write_bytes(b"new\n")
        assert follower.poll() == "half\nnew\n"
        assert follower.restarts == 1


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be renamed there")
def test_rotation_loses_nothing(path):
    with Follower(path) as follower:
        append(path, b"one\n")
        assert follower.poll() == "one\n"
        append(path, b"two\n")
        path.rename(path.with_suffix(".1"))
        # Between the two files there is none.
        assert follower.poll() == "two\n"
        path.write_bytes(b"three\n")
        append(path.with_suffix(".1"), b"late\n")
        text = "".join(filter(None, (follower.poll(), follower.poll())))
        assert [row for row in text.split("\n") if row] == ["late", "three"]
        assert follower.restarts == 1


def test_beginning_in_the_middle(path):
    append(path, b"one\ntwo\nthree\n")
    with Follower(path, start=8, line=3) as follower:
        assert follower.poll() == "three\n"
        assert follower.line == 3
    with Follower(path, start=100) as follower:
        assert follower.poll() is None
        append(path, b"four\n")
        assert follower.poll() == "four\n"


def test_a_directory_or_a_deleted_file_is_silence(path, tmp_path):
    with Follower(tmp_path) as follower:
        assert follower.poll() is None
    append(path, b"one\n")
    with Follower(path) as follower:
        assert follower.poll() == "one\n"
        path.unlink()
        assert follower.poll() is None
