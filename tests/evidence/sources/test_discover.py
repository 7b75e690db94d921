from __future__ import annotations

import os
from pathlib import Path

import pytest

from oomph.errors import InputError
from oomph.evidence.sources import load
from oomph.evidence.sources.discover import discover, natural_key

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.\n"

LINKS = pytest.mark.skipif(os.name == "nt", reason="making links needs a privilege here")


def names(paths):
    return [entry.name for entry in discover(paths).entries]


def test_directories_are_read_in_natural_order(tmp_path):
    for number in (10, 9, 1):
        (tmp_path / f"rank_{number}.log").write_text("x\n")
    found = [os.path.basename(name) for name in names([tmp_path])]
    assert found == ["rank_1.log", "rank_9.log", "rank_10.log"]


def test_rotated_logs_come_oldest_first(tmp_path):
    for name in ("train.log", "train.log.1", "train.log.2.gz", "train.log.10", "eval.log", "z.log.1"):
        (tmp_path / name).write_text("x\n")
    found = [os.path.basename(name) for name in names([tmp_path])]
    assert found == ["eval.log", "train.log.10", "train.log.2.gz", "train.log.1", "train.log", "z.log.1"]


def test_names_keep_the_spelling_of_the_user(tmp_path, monkeypatch):
    (tmp_path / "run" / "a").mkdir(parents=True)
    (tmp_path / "run" / "a" / "x.log").write_text("x\n")
    monkeypatch.chdir(tmp_path)
    assert names(["run/"]) == [os.path.join("run", "a", "x.log")]
    assert names(["."]) == [os.path.join(".", "run", "a", "x.log")]


def test_natural_key_survives_any_digits():
    assert sorted(["a²", "a2", "a10", "٣", "", "7b"], key=natural_key)


def test_patterns_are_expanded_when_the_shell_did_not(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "a.out").write_text("x\n")
    (tmp_path / "b.out").write_text("x\n")
    assert len(names([str(tmp_path / "**" / "*.out")])) == 2
    assert names([str(tmp_path / "*.out")]) == [str(tmp_path / "b.out")]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    (tmp_path / "log[1].txt").write_text("x\n")
    assert names([tmp_path / "log[1].txt"]) == [str(tmp_path / "log[1].txt")]


def test_each_file_is_read_once(tmp_path):
    (tmp_path / "a.log").write_text("x\n")
    assert len(names([tmp_path, tmp_path / "a.log", str(tmp_path / "*.log")])) == 1


@LINKS
def test_loops_of_links_end(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.log").write_text("x\n")
    (tmp_path / "a" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert len(names([tmp_path])) == 1


@LINKS
def test_a_directory_with_only_a_loop_says_so(tmp_path):
    loop = tmp_path / "loop"
    loop.mkdir()
    (loop / "again").symlink_to(loop, target_is_directory=True)
    with pytest.raises(InputError, match="no file to read"):
        load([loop])


def test_hidden_files_and_caches_are_passed_over(tmp_path):
    for name in (".git/config", ".hidden", "__pycache__/a.pyc", "a.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    assert names([tmp_path]) == [str(tmp_path / "a.log")]


@pytest.mark.parametrize("path", ["nowhere.log", "", "a\0b", "x" * 5000])
def test_a_path_that_is_not_there_is_one_sentence(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        load([path])
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")


def test_a_pattern_without_match_says_so(tmp_path):
    with pytest.raises(InputError, match="No file matches"):
        load([str(tmp_path / "*.log")])


def test_no_path_at_all():
    with pytest.raises(InputError, match="standard input"):
        load([])


def test_a_missing_path_is_an_error_even_beside_a_good_one(tmp_path):
    (tmp_path / "a.log").write_text(OOM)
    with pytest.raises(InputError, match="does not exist"):
        load([tmp_path / "a.log", tmp_path / "b.log"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_a_directory_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.log").write_text(OOM)
    assert [document.source for document in load([tmp_path])] == [str(tmp_path / "a.log")]


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="no devices here")
def test_a_device_is_refused():
    with pytest.raises(InputError, match="neither a file nor a directory"):
        load(["/dev/null"])


def test_unreadable_files_in_a_directory_are_named_in_a_note(tmp_path, monkeypatch):
    (tmp_path / "a.log").write_text(OOM)
    (tmp_path / "b.log").write_text(OOM)
    really = Path.open

    def deny(self, *args, **kwargs):
        if self.name == "b.log":
            raise PermissionError(13, "Permission denied")
        return really(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", deny)
    documents = load([tmp_path])
    assert [document.source for document in documents] == [str(tmp_path / "a.log")]
    assert documents[0].input_notes == (f"passed over, because not readable: {tmp_path / 'b.log'}",)
    with pytest.raises(InputError, match="Permission denied"):
        load([tmp_path / "b.log"])
