"""What is kept of a command's output, and what becomes of it where it cannot be."""

from __future__ import annotations

import os

from oomph.recording.command.keep import KeptFile


def kept(tmp_path, most=1000):
    said: list[str] = []
    return KeptFile(tmp_path, "job", ".out", most, said.append), said


def test_all_of_it(tmp_path):
    file, said = kept(tmp_path)
    file.write(b"one\n")
    file.write(b"\xff\x00two")
    file.close()
    assert (tmp_path / "job.out").read_bytes() == b"one\n\xff\x00two"
    assert (os.listdir(tmp_path), said) == (["job.out"], [])


def test_the_beginning_and_the_end_of_too_much(tmp_path):
    file, said = kept(tmp_path, most=1000)
    whole = bytes(range(256)) * 40
    for start in range(0, len(whole), 77):
        file.write(whole[start : start + 77])
    file.close()
    assert (tmp_path / "job.out").read_bytes() == whole[:500]
    end = (tmp_path / "job-before.out").read_bytes() + (tmp_path / "job-last.out").read_bytes()
    assert whole.endswith(end)
    assert 250 < len(end) <= 500
    assert said == []


def test_a_full_disk_is_said_once_and_tried_again(tmp_path):
    os.symlink("/dev/full", tmp_path / "job.out")
    file, said = kept(tmp_path)
    for _ in range(5):
        file.write(b"lost\n")
    assert len(said) == 1
    assert "the disk is full" in said[0]
    assert file.lost_bytes == 25
    assert file.lost_end == b"lost\n" * 5
    file.close()
    os.unlink(tmp_path / "job.out")
    file.write(b"kept\n")
    file.close()
    assert (tmp_path / "job.out").read_bytes() == b"kept\n"


def test_a_folder_that_is_gone(tmp_path):
    file, said = kept(tmp_path / "gone")
    file.write(b"lost")
    file.close()
    assert len(said) == 1
