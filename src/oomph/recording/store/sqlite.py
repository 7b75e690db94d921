"""The index's file: opened, checked, made anew where it is damaged or old, and given up where it cannot be written.

Nothing in it is needed: what cannot be kept in the file is kept in memory for this one command.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from oomph.errors import UsageError
from oomph.recording.store.compare import matches

#: "omph" in ASCII, so that a file of somebody else's is never taken for an index; and the version of the tables and of
#: the facts in them (diagnose/runs/facts.py): a change of either makes it one more, and indexes are made anew.
APPLICATION, LAYOUT = 0x6F6D7068, 4
_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    path TEXT PRIMARY KEY, stamp TEXT NOT NULL, root TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL,
    started REAL NOT NULL, outcome TEXT NOT NULL, facts BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (
    run TEXT NOT NULL, key TEXT NOT NULL, text TEXT NOT NULL, number REAL, PRIMARY KEY (run, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS facts_by_key ON facts (key);
"""
#: Seconds to wait for another process that writes.
_PATIENCE = 10.0


def open_index(path: Path | None, *, ours: bool) -> tuple[sqlite3.Connection, str]:
    """A connection to the index at `path` (None: in memory), and a sentence that says why it is not that file.

    `ours`: the path is oomph's own choice, so that whatever is there may be replaced; a file that the user named is
    replaced only where it says itself that it is an index. Raises UsageError for a file that is something else.
    """
    if path is None:
        return _in_memory(), ""
    if not ours:
        _refuse_others(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _opened(path), ""
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return _in_memory(), f"{path} is being written by another process: it was not used"
        return _made_anew(path, error)
    except (sqlite3.DatabaseError, _OtherLayoutError) as error:
        return _made_anew(path, error)
    except OSError as error:
        return (
            _in_memory(),
            f"{path} cannot be written ({error.strerror or error}): nothing is kept of the index",
        )


class _OtherLayoutError(Exception):
    """The tables are of another version."""


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        layout = connection.execute("PRAGMA user_version").fetchone()[0]
        if (application, layout) != (APPLICATION, LAYOUT):
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise _OtherLayoutError
            connection.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {LAYOUT}")
            connection.execute("COMMIT")
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise sqlite3.DatabaseError("damaged")
        # Whether it can be written shows only when something is.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except BaseException:
        connection.close()
        raise
    return _ready(connection)


def _made_anew(path: Path, error: Exception) -> tuple[sqlite3.Connection, str]:
    """Another file in its place; a process that has the old one open goes on with that."""
    try:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        for leftover in (temporary, Path(f"{temporary}-journal")):
            leftover.unlink(missing_ok=True)
        _opened(temporary).close()
        for journal in ("-journal", "-wal", "-shm"):
            Path(f"{path}{journal}").unlink(missing_ok=True)
        temporary.replace(path)
        return _opened(path), ""
    except (OSError, sqlite3.Error, _OtherLayoutError):
        with suppress(OSError):
            path.with_name(f".{path.name}.{os.getpid()}").unlink()
        reason = str(error) or "it is of another version"
        return _in_memory(), f"{path} cannot be used ({reason}): nothing is kept of the index"


def _in_memory() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(_TABLES)
    return _ready(connection)


def _ready(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.create_function("oomph_matches", 5, matches, deterministic=True)
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS here (path TEXT PRIMARY KEY)")
    return connection


def _refuse_others(path: Path) -> None:
    """SQLite's header has the application's id in bytes 68 to 71 (sqlite.org/fileformat2.html)."""
    with suppress(FileNotFoundError):
        try:
            with path.open("rb") as stream:
                head = stream.read(100)
        except IsADirectoryError:
            raise UsageError(f"OOMPH_INDEX={path}: is a folder; name a file") from None
        if head and head[68:72] != APPLICATION.to_bytes(4, "big"):
            raise UsageError(
                f"OOMPH_INDEX={path}: is no index of oomph's and will not be overwritten; name another file"
            )
