"""Run folders and their index: which is a cache, may be damaged at any time, and never decides."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading

import pytest

from oomph.errors import InputError, UsageError
from oomph.evidence.run.model import RANKS, rank_name
from oomph.evidence.run.read import read_run
from oomph.recording.store import Store
from oomph.recording.store.mirror import Mirror, copy, spool
from tests.recording_store.fakes import write_run


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "oomph-runs"
    for number in range(3):
        write_run(folder, number, name=f"run-{number}")
    write_run(folder / "deeper", 3, fails_at=1, name="failed")
    (folder / "no-run").mkdir()
    return folder


def names(store: Store, query: str | None = None) -> list[str]:
    return [row.name for row in store.rows(query)]


def test_newest_first_and_limited(root):
    with Store([root]) as store:
        assert names(store) == ["failed", "run-2", "run-1", "run-0"]
        assert [row.name for row in store.rows(limit=2)] == ["failed", "run-2"]
        assert store.notes == []
    assert (root / "index.sqlite").is_file()


def test_it_follows_the_folders(root):
    with Store([root]) as store:
        names(store)
        shutil.rmtree(next(root.glob("20261122-0001-*")))
        write_run(root, 7, name="new")
        assert names(store) == ["new", "failed", "run-2", "run-0"]
        path = next(root.glob("20261122-0002-*"))
        (path / RANKS / f"{rank_name(0)}.jsonl").unlink()
        assert next(row for row in store.rows() if row.name == "run-2").values.get("peak.rank") == 1
    with sqlite3.connect(root / "index.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (4,)
    connection.close()


def test_runs_are_not_read_again(root, monkeypatch):
    with Store([root]) as store:
        names(store)
    monkeypatch.setattr("oomph.recording.store.store.read_run", lambda files: pytest.fail(files.path))
    with Store([root]) as store:
        assert len(names(store)) == 4


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_damaged_index_is_made_anew(root, content):
    (root / "index.sqlite").write_bytes(content)
    with Store([root]) as store:
        assert len(names(store)) == 4
        assert store.notes == []
    with Store([root]) as store:
        assert len(names(store)) == 4


def test_damage_within(root):
    with Store([root]) as store:
        names(store)
    path = root / "index.sqlite"
    data = bytearray(path.read_bytes())
    data[4096:8192] = b"\xaa" * 4096
    path.write_bytes(bytes(data))
    with Store([root]) as store:
        assert len(names(store)) == 4


def test_another_layout_is_made_anew(root):
    with sqlite3.connect(root / "index.sqlite") as connection:
        connection.execute("CREATE TABLE runs (x)")
        connection.execute("PRAGMA application_id = 1869443176")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    with Store([root]) as store:
        assert len(names(store)) == 4


def test_a_file_of_somebody_else_is_not_overwritten(root, tmp_path, monkeypatch):
    other = tmp_path / "precious.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = other.read_bytes()
    monkeypatch.setenv("OOMPH_INDEX", str(other))
    with pytest.raises(UsageError, match="is no index of oomph's"), Store([root]) as store:
        store.rows()
    assert other.read_bytes() == before
    monkeypatch.setenv("OOMPH_INDEX", str(tmp_path / "sub" / "mine.sqlite"))
    with Store([root]) as store:
        assert len(names(store)) == 4
    assert (tmp_path / "sub" / "mine.sqlite").is_file()
    assert not (root / "index.sqlite").exists()


def test_without_any_place_to_write(root, monkeypatch):
    real = sqlite3.connect

    def refuse(path, *args, **kwargs):
        if str(path) != ":memory:":
            raise sqlite3.OperationalError("unable to open database file")
        return real(path, *args, **kwargs)

    monkeypatch.setattr(sqlite3, "connect", refuse)
    with Store([root]) as store:
        assert len(names(store)) == 4
        assert len(names(store, "outcome = oom")) == 1
        assert "cannot be used" in store.notes[0]


def test_a_locked_index_is_waited_for_and_then_left(root, monkeypatch):
    with Store([root]) as store:
        names(store)
    monkeypatch.setattr("oomph.recording.store.sqlite._PATIENCE", 0.05)
    holder = sqlite3.connect(root / "index.sqlite", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with Store([root]) as store:
        assert len(names(store)) == 4
        assert "written by another process" in store.notes[0]
    holder.execute("ROLLBACK")
    holder.close()


def test_many_at_once(root):
    answers, problems = [], []

    def ask() -> None:
        try:
            for _ in range(3):
                with Store([root]) as store:
                    answers.append(len(store.rows("outcome = completed")))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must say it
            problems.append(error)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert answers == [3] * 18


def test_no_folder_and_nothing_made(tmp_path):
    with Store([tmp_path / "none"]) as store:
        assert store.rows() == []
        with pytest.raises(InputError, match="no run is recorded below"):
            store.find("last")
    assert list(tmp_path.iterdir()) == []


def test_one_damaged_run_hides_no_other(root):
    path = next(root.glob("20261122-0000-*"))
    (path / "run.json").write_bytes(b'{"version": "x"')
    (path / RANKS / f"{rank_name(0)}.jsonl").write_bytes(b"\xff\xfe{")
    with Store([root]) as store:
        assert len(store.rows()) == 4


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("last", "failed"),
        ("last~1", "run-2"),
        ("last-failed", "failed"),
        ("run-1", "run-1"),
        ("20261122-0002", "run-2"),
    ],
)
def test_what_a_run_is_called(root, name, found):
    with Store([root]) as store:
        assert store.find(name).name == found


def test_paths_are_runs_too(root, monkeypatch):
    path = next(root.glob("20261122-0002-*"))
    with Store([root]) as store:
        assert store.find(str(path)).name == "run-2"
        assert store.read(str(path))[1].run.name == "run-2"
        assert store.find(f"{root}/deeper").name == "failed"
    monkeypatch.chdir(path)
    with Store(["nowhere"]) as store:
        assert store.find(".").name == "run-2"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("20261122", "4 runs are called so"),
        ("last~9", "4 runs are there"),
        ("last-failed~1", "1 runs have failed"),
        ("run-9", "did you mean|no run is called so"),
        ("some/where", "no run directory"),
    ],
)
def test_what_no_run_is_called(root, name, says):
    with Store([root]) as store, pytest.raises((UsageError, InputError), match=says):
        store.find(name)


def test_a_folder_that_is_no_run(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with Store([root]) as store, pytest.raises(InputError, match="is no run directory"):
        store.find("empty")


@pytest.fixture
def memory():
    """fsspec's file system in memory, empty."""
    import fsspec

    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


def test_any_file_system(root, memory, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for path in sorted(root.glob("2026*")):
        copy(str(path), f"memory://bucket/runs/{path.name}")
    with Store(["memory://bucket/runs"]) as store:
        assert names(store) == ["run-2", "run-1", "run-0"]
        facts, data = store.read("20261122-0001")
        assert facts.path.startswith("memory://bucket/runs/20261122-0001-")
        assert data.ranks[1].peak_allocated_bytes == read_run(root / facts.id).ranks[1].peak_allocated_bytes
        assert store.find(facts.path).id == facts.id
        with pytest.raises(InputError, match="there is no run directory"):
            store.find("memory://bucket/none")
    assert len(list((tmp_path / "cache" / "oomph").iterdir())) == 1
    copy(f"memory://bucket/runs/{facts.id}", str(tmp_path / "back" / facts.id))
    assert read_run(tmp_path / "back" / facts.id).run == data.run


def test_a_mirror_carries_what_has_changed(root, memory):
    path = next(root.glob("20261122-0002-*"))
    mirror = Mirror(path, "memory://m/run")
    assert mirror.push() == []
    count = mirror.files
    file = path / RANKS / f"{rank_name(0)}.jsonl"
    with file.open("ab") as stream:
        stream.write(b"{}\n")
    os.utime(file, ns=(1, 1))
    assert mirror.push() == []
    assert mirror.files == count
    assert memory.cat_file("/m/run/ranks/rank-00000.jsonl") == file.read_bytes()
    other = Mirror(path, "memory://m/run")
    (path / "run.json").write_bytes(b"of a later rank")
    other.push()
    assert memory.cat_file("/m/run/run.json") != b"of a later rank"


def test_a_mirror_says_what_it_could_not_copy(tmp_path, memory, monkeypatch):
    folder, mirror = spool("memory://m/run")
    (folder / "run.json").write_bytes(b"{}")

    def refuse(*args, **kwargs):
        raise PermissionError("no")

    monkeypatch.setattr(type(memory), "put_file", refuse)
    assert mirror.push() == ["run.json was not copied to memory://m/run: PermissionError: no"]
    shutil.rmtree(folder)


def test_what_is_missing_is_named(monkeypatch):
    with pytest.raises(UsageError, match="nosuch"):
        Store(["nosuch://x"]).rows()
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(UsageError, match=r"pip install 'oomph\[fsspec\]'"):
        Store(["memory://x"]).rows()
