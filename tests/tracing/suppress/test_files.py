"""The overlay, with Python's own functions: the script sees its writes, the real files stay as they were."""

from __future__ import annotations

import contextlib
import glob
import gzip
import json
import os
import pathlib
import shutil
import tempfile

import pytest

from oomph.hardware.gpus import Gpu
from oomph.tracing.patching import Patches
from oomph.tracing.settings import TraceSettings
from oomph.tracing.suppress import files
from tests.tracing.child.light import LightRecorder

A100 = Gpu("A100-40GB", (8, 0), 108, 2048, 40 << 30)


@contextlib.contextmanager
def suppressed(folder):
    """Inside, nothing is written; gives the list of what would have been."""
    before = os.getcwd()
    os.chdir(folder)
    patches = Patches()
    recorder = LightRecorder(TraceSettings(A100, (2, 13)), patches)
    try:
        with patches:
            files.install(recorder)
            yield recorder.suppressed
    finally:
        os.chdir(before)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("a")
    (tmp_path / "data" / "b.txt").write_text("b")
    (tmp_path / "config.json").write_text('{"x": 1}')
    return tmp_path


def held(path, mode="r"):
    with open(path, mode) as stream:
        return stream.read()


def gunzipped(path):
    with gzip.open(path) as stream:
        return stream.read()


def tree(folder):
    """Every file below a folder with what it holds."""
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture(autouse=True)
def nothing_changes(folder):
    before = tree(folder)
    yield
    assert tree(folder) == before


def test_a_script_finds_what_it_wrote(folder):
    with suppressed(folder) as listed:
        os.makedirs("out/run/1")
        with open("out/run/1/log.txt", "w") as stream:
            assert stream.name == "out/run/1/log.txt"
            stream.write("one")
        with open("out/run/1/log.txt", "a") as stream:
            stream.write("two")
        assert held("out/run/1/log.txt") == "onetwo"
        assert os.path.isdir("out/run")
        assert os.path.getsize("out/run/1/log.txt") == 6
        assert pathlib.Path("out/run/1/log.txt").read_text() == "onetwo"
        assert os.listdir("out/run/1") == ["log.txt"]
    assert list(listed) == ["write out/run/1/log.txt"]
    assert not os.path.exists(folder / "out")


def test_appending_and_updating_start_from_the_real_file(folder):
    with suppressed(folder):
        with open("data/a.txt", "a") as stream:
            stream.write("+")
        with open("data/b.txt", "r+") as stream:
            stream.write("B")
        assert (held("data/a.txt"), held("data/b.txt")) == ("a+", "B")
        with open("config.json", "w") as stream:
            json.dump({"y": 2}, stream)
        assert json.loads(held("config.json")) == {"y": 2}


def test_folders_show_both_sides(folder):
    with suppressed(folder):
        pathlib.Path("data/c.txt").write_text("c")
        os.mkdir("data/new")
        pathlib.Path("data/new/d.txt").touch()
        os.remove("data/a.txt")
        assert sorted(os.listdir("data")) == ["b.txt", "c.txt", "new"]
        assert sorted(glob.glob("data/*.txt")) == ["data/b.txt", "data/c.txt"]
        assert sorted(glob.glob("**/*.txt", recursive=True)) == ["data/b.txt", "data/c.txt", "data/new/d.txt"]
        assert sorted(str(each) for each in pathlib.Path("data").iterdir()) == [
            "data/b.txt",
            "data/c.txt",
            "data/new",
        ]
        assert sorted(each.name for each in pathlib.Path("data").glob("*.txt")) == ["b.txt", "c.txt"]
        assert sorted(each.name for each in pathlib.Path("data").rglob("*.txt")) == [
            "b.txt",
            "c.txt",
            "d.txt",
        ]
        with os.scandir("data") as entries:
            found = {
                each.name: (each.is_dir(), each.is_file(), each.path, each.stat().st_size) for each in entries
            }
        assert found["new"][:3] == (True, False, "data/new")
        assert found["c.txt"] == (False, True, "data/c.txt", 1)
        assert sorted(each for _, _, names in os.walk("data") for each in names) == [
            "b.txt",
            "c.txt",
            "d.txt",
        ]


def test_what_is_deleted_is_gone_for_the_script(folder):
    with suppressed(folder) as listed:
        shutil.rmtree("data")
        assert not os.path.exists("data")
        assert not os.path.exists("data/a.txt")
        with pytest.raises(FileNotFoundError):
            held("data/a.txt")
        os.mkdir("data")
        assert os.listdir("data") == []
        pathlib.Path("data/new.txt").write_text("n")
        assert os.listdir("data") == ["new.txt"]
        assert not os.path.exists("data/a.txt")
    assert list(listed) == ["delete data", "write data/new.txt"]


def test_a_folder_that_the_script_made_can_be_deleted(folder):
    with suppressed(folder) as listed:
        os.makedirs("out/a/b")
        pathlib.Path("out/a/b/x").write_text("x")
        shutil.rmtree("out")
        assert not os.path.exists("out")
        os.makedirs("out/a")
        assert os.listdir("out/a") == []
        os.rmdir("out/a")
        assert os.listdir("out") == []
    assert list(listed) == ["write out/a/b/x"]


def test_moves(folder):
    with suppressed(folder):
        pathlib.Path("t.tmp").write_text("t")
        os.replace("t.tmp", "data/a.txt")
        assert held("data/a.txt") == "t"
        assert not os.path.exists("t.tmp")
        shutil.move("data", "moved")
        assert sorted(os.listdir("moved")) == ["a.txt", "b.txt"]
        assert held("moved/b.txt") == "b"
        assert not os.path.exists("data")
        os.mkdir("w")
        pathlib.Path("w/x").write_text("x")
        os.rename("w", "v")
        assert held("v/x") == "x"
        assert not os.path.exists("w")
        pathlib.Path("config.json").rename("config.old")
        assert json.loads(held("config.old")) == {"x": 1}
        with pytest.raises(FileNotFoundError):
            os.rename("config.json", "z")


def test_copies_and_links(folder):
    with suppressed(folder):
        shutil.copytree("data", "copy")
        shutil.copy2("config.json", "copy/config.json")
        assert sorted(os.listdir("copy")) == ["a.txt", "b.txt", "config.json"]
        os.symlink("copy", "latest")
        assert held("latest/a.txt") == "a"
        assert os.path.islink("latest")
        os.symlink(os.path.abspath("data"), "linked")
        assert held("linked/b.txt") == "b"
        os.unlink("latest")
        assert not os.path.lexists("latest")
        assert os.path.exists("copy")
        os.link("config.json", "hard.json")
        assert json.loads(held("hard.json")) == {"x": 1}


def test_errors_are_those_of_the_system(folder):
    with suppressed(folder):
        for act, kind in [
            (lambda: held("no/such.txt", "w"), FileNotFoundError),
            (lambda: held("no.txt", "r+"), FileNotFoundError),
            (lambda: held("config.json", "x"), FileExistsError),
            (lambda: held("data", "w"), IsADirectoryError),
            (lambda: os.mkdir("data"), FileExistsError),
            (lambda: os.mkdir("no/such"), FileNotFoundError),
            (lambda: os.rmdir("data"), OSError),
            (lambda: os.remove("no.txt"), FileNotFoundError),
            (lambda: os.chmod("no.txt", 0o600), FileNotFoundError),
            (lambda: shutil.rmtree("no"), FileNotFoundError),
        ]:
            with pytest.raises(kind):
                act()
        os.makedirs("data", exist_ok=True)
        pathlib.Path("data").mkdir(exist_ok=True, parents=True)
        shutil.rmtree("no", ignore_errors=True)
        pathlib.Path("no").unlink(missing_ok=True)
        os.remove("data/a.txt")
        with pytest.raises(FileNotFoundError, match=r"'data/a\.txt'"):
            held("data/a.txt")


def test_descriptors_and_modes(folder):
    with suppressed(folder) as listed:
        handle = os.open("raw.bin", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(handle, b"raw")
        os.close(handle)
        assert os.stat("raw.bin").st_size == 3
        with pytest.raises(FileExistsError):
            os.open("raw.bin", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with gzip.open("z.gz", "wb") as stream:
            stream.write(b"z")
        assert gunzipped("z.gz") == b"z"
        os.chmod("config.json", 0o600)
        os.utime("config.json")
        os.truncate("data/a.txt", 0)
        assert os.path.getsize("data/a.txt") == 0
    assert list(listed) == ["write raw.bin", "write z.gz", "write data/a.txt"]


def test_paths_in_all_their_forms(folder):
    with suppressed(folder):
        with open(file=b"bytes.txt", mode="w", encoding="utf-8") as stream:
            stream.write("b")
        assert held(pathlib.Path("bytes.txt")) == "b"
        assert b"bytes.txt" in os.listdir(b".")
        assert "bytes.txt" in os.listdir(None)
        assert "bytes.txt" in [each.name for each in os.scandir()]
        assert b"./bytes.txt" in [each.path for each in os.scandir(b".")]
        assert held("data/../data/./a.txt") == "a"
        os.mkdir(path="é", mode=0o700)
        os.rename(src="bytes.txt", dst="é/ü.txt")
        assert os.listdir("é") == ["ü.txt"]
        with pytest.raises(ValueError, match="null byte"):
            held("a\0b", "w")
        with pytest.raises(TypeError):
            held(1.5)
        handle = os.open("data", os.O_RDONLY)
        assert sorted(os.listdir(handle)) == ["a.txt", "b.txt"]
        inner = os.open("c.txt", os.O_WRONLY | os.O_CREAT, dir_fd=handle)
        os.close(inner)
        assert os.stat("c.txt", dir_fd=handle).st_size == 0
        os.unlink("c.txt", dir_fd=handle)
        assert not os.path.exists("data/c.txt")
        os.close(handle)


def test_places_that_cannot_be_written_can(folder):
    with suppressed(folder) as listed:
        os.makedirs("/no-such-scratch/user/out")
        pathlib.Path("/no-such-scratch/user/out/x").write_text("x")
        assert os.listdir("/no-such-scratch/user") == ["out"]
    assert list(listed) == ["write /no-such-scratch/user/out/x"]
    assert not os.path.exists("/no-such-scratch")


def test_a_folder_that_only_the_script_made_can_be_entered(folder):
    with suppressed(folder):
        os.makedirs("out")
        os.chdir("out")
        pathlib.Path("x").write_text("x")
        assert held("x") == "x"
        os.chdir(folder)
        assert held("out/x") == "x"
        os.chdir(folder)


def test_temporary_files_are_real_and_go(folder):
    with suppressed(folder) as listed:
        with tempfile.NamedTemporaryFile("w", delete=False) as stream:
            stream.write("t")
        name = stream.name
        assert held(name) == "t"
        with tempfile.TemporaryDirectory() as inner:
            pathlib.Path(inner, "x").write_text("x")
        assert not os.path.exists(inner)
        kept = tempfile.mkdtemp()
        os.rename(name, "kept.txt")
        assert held("kept.txt") == "t"
    assert list(listed) == ["write kept.txt"]
    assert not os.path.exists(kept)


def test_caches_and_devices_are_written(folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    with suppressed(folder) as listed:
        os.makedirs("cache/lib")
        pathlib.Path("cache/lib/x").write_text("x")
        with open(os.devnull, "w") as stream:
            stream.write("gone")
    assert (folder / "cache" / "lib" / "x").read_text() == "x"
    assert not listed
    shutil.rmtree(folder / "cache")


def test_what_a_forked_process_writes_is_seen(folder):
    with suppressed(folder):
        child = os.fork()
        if child == 0:
            with open("from-child.txt", "w") as stream:
                stream.write("c")
            os._exit(0)
        os.waitpid(child, 0)
        assert held("from-child.txt") == "c"


def test_everything_is_put_back(folder):
    functions = (open, os.open, os.stat, os.mkdir, os.scandir, shutil.rmtree, tempfile.gettempdir())
    with suppressed(folder):
        assert open is not functions[0]
    assert (open, os.open, os.stat, os.mkdir, os.scandir, shutil.rmtree, tempfile.gettempdir()) == functions
