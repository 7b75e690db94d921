"""The runs below some folders, through the index: listed, asked for, found by what people call them."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from oomph.diagnose.runs.facts import facts_of
from oomph.diagnose.runs.model import RunFacts, as_number
from oomph.errors import InputError, UsageError
from oomph.evidence.run.data import RunData
from oomph.evidence.run.read import is_run, read_run
from oomph.recording.store.folders import Found, folder, is_url
from oomph.recording.store.names import can_be, like
from oomph.recording.store.query import Query, parse
from oomph.recording.store.sqlite import open_index

#: Where runs are looked for by default, below the working directory.
DEFAULT = "oomph-runs"
#: Outcomes that may change without any file changing: the process dies.
_OPEN = ("running", "unknown")
_FAILED = ("oom", "exception", "killed", "interrupted")
_ROWS = "SELECT facts FROM runs WHERE path IN (SELECT path FROM here)"
#: Runs that are written at once.
_BATCH = 100
_DECODE: msgspec.json.Decoder[RunFacts] = msgspec.json.Decoder(RunFacts)


class Store:
    """Runs below `roots` (folders, run directories, URLs). `index` is the index's file; without it, OOMPH_INDEX, else
    index.sqlite in the first root, else a file in the user's cache. Reading happens at the first question.

    `notes` has a sentence for each thing that went wrong on the way and stopped nothing.
    """

    def __init__(
        self,
        roots: Sequence[str | os.PathLike[str]] = (DEFAULT,),
        index: str | os.PathLike[str] | None = None,
    ) -> None:
        self.roots = [os.fspath(root) for root in roots]
        self.notes: list[str] = []
        self._index = index if index is not None else os.environ.get("OOMPH_INDEX") or None
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets the index go."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def rows(self, query: str | None = None, *, limit: int | None = None) -> list[RunFacts]:
        """The runs that the query wants (all without one), newest first. Raises UsageError for a query that makes no
        sense or asks for facts that cannot be."""
        parsed = None if query is None or not query.strip() else parse(query)
        connection = self._refreshed()
        if parsed is not None:
            self._check_names(connection, parsed)
        # What was parsed is made of constants: names and values of the query are parameters.
        condition = f" AND {parsed.sql}" if parsed else ""
        statement = _ROWS + condition + " ORDER BY started DESC, path DESC LIMIT ?"
        parameters = (*(parsed.parameters if parsed else ()), -1 if limit is None else limit)
        return [_DECODE.decode(row[0]) for row in connection.execute(statement, parameters)]

    def find(self, name: str) -> RunFacts:
        """The run that is called so: a path or URL, an id or the unique beginning of one, a name that one run has,
        `last`, `last-failed`, `last~1` (the one before). Raises UsageError where there is none, or several."""
        found = self._at_path(name)
        if found is not None:
            return found
        rows = self.rows()
        if not rows:
            raise InputError(
                f"{name}: no run is recorded below {', '.join(self.roots)}, and no such path is there"
            )
        chosen = self._by_word(name, rows)
        if chosen is not None:
            return chosen
        for matching in (
            [row for row in rows if name in (row.id, _last(row.path))],
            [row for row in rows if row.name == name],
            [row for row in rows if row.id.startswith(name) or _last(row.path).startswith(name)],
        ):
            if len(matching) == 1:
                return matching[0]
            if matching:
                listed = ", ".join(row.label for row in matching[:5])
                more = f" and {len(matching) - 5} more" if len(matching) > 5 else ""
                raise UsageError(f"{name}: {len(matching)} runs are called so: {listed}{more}; say which")
        if Path(name).is_dir():
            raise InputError(
                f"{name}: no run is called so, and the folder of that name is no run directory (it has no run.json "
                "that can be read)"
            )
        from difflib import get_close_matches

        close = get_close_matches(name, [row.label for row in rows], n=3, cutoff=0.6)
        hint = f"did you mean {' or '.join(close)}?" if close else "`oomph runs list` lists them"
        raise UsageError(f"{name}: no run is called so; {hint}")

    def read(self, name: str) -> tuple[RunFacts, RunData]:
        """The run that is called so, with all of its records."""
        row = self.find(name)
        data = read_run(folder(row.path).files(row.path))
        return facts_of(data), data

    def _at_path(self, name: str) -> RunFacts | None:
        """The run at a path or URL; None for a name that is none."""
        if is_url(name):
            files = folder(name).files(name)
            if is_run(files):
                return facts_of(read_run(files))
            raise InputError(f"{name}: there is no run directory")
        with suppress(OSError, ValueError):
            path = Path(name).expanduser()
            if is_run(path):
                return facts_of(read_run(path))
            if path.is_dir() and (os.sep in name or name in (".", "..")):
                below = list(folder(path).runs())
                if len(below) == 1:
                    return facts_of(read_run(below[0].files))
                what = f"{len(below)} runs are below it; name one" if below else "is no run directory"
                raise InputError(f"{name}: {what}")
        if os.sep in name:
            raise InputError(f"{name}: there is no run directory")
        return None

    @staticmethod
    def _by_word(name: str, rows: Sequence[RunFacts]) -> RunFacts | None:
        word, tilde, number = name.partition("~")
        if word not in ("last", "last-failed") or (tilde and not (number.isascii() and number.isdigit())):
            return None
        back = int(number[:9]) if tilde else 0
        wanted = [row for row in rows if word == "last" or row.outcome in _FAILED]
        if back >= len(wanted):
            there = f"{len(wanted)} runs {'have failed' if word == 'last-failed' else 'are there'}"
            raise UsageError(f"{name}: {there}")
        return wanted[back]

    # The index.

    def _refreshed(self) -> sqlite3.Connection:
        """The index, up to date with the folders as they are now."""
        if self._connection is None:
            path, ours = self._place()
            self._connection, note = open_index(path, ours=ours)
            if note:
                self.notes.append(note)
        try:
            self._refresh(self._connection)
        except sqlite3.Error as error:
            # Written by another process for too long, a full disk, damage that shows late: go on without the file.
            self.notes.append(f"the index could not be used ({error}): the runs were read instead")
            self._connection.close()
            self._connection, _ = open_index(None, ours=True)
            self._refresh(self._connection)
        return self._connection

    def _place(self) -> tuple[Path | None, bool]:
        """The index's file (None: none can be), and whether its place is oomph's own choice."""
        if self._index is not None:
            return Path(self._index).expanduser(), False
        root = self.roots[0] if self.roots else DEFAULT
        if not is_url(root):
            path = Path(root.removeprefix("file://")).expanduser()
            if not path.is_dir():
                return None, True  # nothing is there: nothing is made either
            if os.access(path, os.W_OK) and not is_run(path):
                return path / "index.sqlite", True
            root = str(path.resolve())
        cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        with suppress(RuntimeError):
            return cache / "oomph" / f"index-{hashlib.sha256(root.encode()).hexdigest()[:16]}.sqlite", True
        return None, True

    def _refresh(self, connection: sqlite3.Connection) -> None:
        known = {
            row[0]: (row[1], row[2]) for row in connection.execute("SELECT path, stamp, outcome FROM runs")
        }
        there: list[str] = []
        fresh: list[tuple[Found, RunFacts]] = []
        for found in self._found():
            there.append(found.path)
            stamp, outcome = known.get(found.path, ("", ""))
            if stamp == found.stamp and outcome not in _OPEN:
                continue
            facts = self._read(found)
            if facts is not None:
                fresh.append((found, facts))
            if len(fresh) >= _BATCH:  # so that an interrupted first time is not all lost
                _write(connection, fresh)
                fresh = []
        _write(connection, fresh, self._gone(connection, there))
        connection.execute("DELETE FROM here")
        connection.executemany("INSERT OR IGNORE INTO here VALUES (?)", [(path,) for path in there])

    def _found(self) -> Iterator[Found]:
        for root in self.roots:
            yield from folder(root).runs()

    def _read(self, found: Found) -> RunFacts | None:
        try:
            return facts_of(read_run(found.files))
        except (InputError, OSError) as error:
            self.notes.append(f"{found.path} cannot be read: {error}")
        except Exception as error:  # noqa: BLE001 - one damaged run must not hide the others
            self.notes.append(f"{found.path} cannot be read: {type(error).__name__}: {str(error)[:200]}")
        return None

    def _gone(self, connection: sqlite3.Connection, there: Iterable[str]) -> list[str]:
        """Runs that the index has below these roots and that are there no more."""
        present = set(there)
        roots = tuple(f"{_absolute(root)}/" for root in self.roots)
        rows = connection.execute("SELECT path, root FROM runs")
        return [path for path, root in rows if path not in present and f"{root}/".startswith(roots)]

    def _check_names(self, connection: sqlite3.Connection, query: Query) -> None:
        """A name that no run can have is a slip: saying nothing would look like an answer."""
        known = {row[0] for row in connection.execute("SELECT DISTINCT key FROM facts")}
        for name in query.names:
            if known and not can_be(name, known):
                close = like(name, known)
                hint = (
                    f"did you mean {' or '.join(close)}?"
                    if close
                    else "`oomph runs show RUN` shows what there is"
                )
                raise UsageError(f"--query: no run has a fact {name[:80]!r}; {hint}")


def _write(
    connection: sqlite3.Connection, fresh: Sequence[tuple[Found, RunFacts]], gone: Sequence[str] = ()
) -> None:
    """All of it, or nothing."""
    if not fresh and not gone:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for path in gone:
            _forget(connection, path)
        for found, facts in fresh:
            _keep(connection, found, facts)
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _keep(connection: sqlite3.Connection, found: Found, facts: RunFacts) -> None:
    _forget(connection, found.path)
    root = _root_of(found.path)
    row = (
        found.path,
        found.stamp,
        root,
        facts.id,
        facts.name,
        facts.started,
        facts.outcome,
        msgspec.json.encode(facts),
    )
    connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.executemany(
        "INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?)",
        [(found.path, key, str(value), as_number(value)) for key, value in searchable(facts).items()],
    )


def searchable(facts: RunFacts) -> dict[str, object]:
    """All facts of a run by the names that queries know."""
    from datetime import datetime, timezone

    started = ""
    with suppress(OverflowError, ValueError, OSError):
        started = datetime.fromtimestamp(facts.started, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    own = {
        "id": facts.id, "name": facts.name, "path": facts.path, "outcome": facts.outcome, "started": started,
    }  # fmt: skip
    return {**facts.values, **{key: value for key, value in own.items() if value}}


def _forget(connection: sqlite3.Connection, path: str) -> None:
    connection.execute("DELETE FROM facts WHERE run = ?", (path,))
    connection.execute("DELETE FROM runs WHERE path = ?", (path,))


def _root_of(path: str) -> str:
    """The folder that a run is in."""
    if is_url(path):
        return path.rpartition("/")[0]
    return str(Path(path).resolve().parent)


def _absolute(root: str) -> str:
    return (
        root.rstrip("/") if is_url(root) else str(Path(root.removeprefix("file://")).expanduser().resolve())
    )


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]
