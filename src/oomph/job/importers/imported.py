"""What one file says of a job: values under the job's own names, each with the key that it was read from."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field

from oomph.job.model import Model

#: Takes what a key says: (where to put it, the key as written, its value).
Handler = Callable[["Collector", str, object], None]


@dataclass(frozen=True)
class Value:
    """A value of a job. `quote` is the key and the text that say it. `default`: nobody wrote it; it is what the
    framework does by itself, and `quote` says whose default it is."""

    value: object
    quote: str
    default: bool = False


@dataclass(frozen=True)
class Imported:
    """One file, read.

    `kind` is the format that was recognised, `name` the file's name ("" for text). `values` maps paths of fields of
    the job (`batch.micro`) to values; paths that begin with `given.` are facts that only several files together turn
    into fields (`given.global_batch`). `unknown`: keys whose meaning is not known here and which may matter for memory.
    `unsupported`: what the file asks for that a job cannot say. `notes`: what else a reader should know. Keys that
    cannot matter for memory are in none of them."""

    kind: str
    name: str
    values: Mapping[str, Value]
    unknown: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    model: Model | None = None


@dataclass
class Collector:
    """Gathers what a format's reader finds."""

    kind: str
    name: str = ""
    values: dict[str, Value] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    model: Model | None = None

    def put(self, path: str, value: object, key: str, text: object) -> None:
        """What the file says. A later word of the same file replaces an earlier one."""
        self.values[path] = Value(value, quote(key, text))

    def default(self, path: str, value: object, source: str) -> None:
        """What the framework does where the file is silent."""
        if path not in self.values:
            self.values[path] = Value(value, source, default=True)

    def get(self, path: str) -> object:
        """The value under a path so far, None where there is none."""
        found = self.values.get(path)
        return None if found is None else found.value

    def refuse(self, key: str, text: object, why: str = "") -> None:
        """Something that a job cannot say."""
        said = f"unsupported: {quote(key, text)}{' (' + why + ')' if why else ''}"
        if said not in self.unsupported:
            self.unsupported.append(said)

    def note(self, text: str) -> None:
        """Something that a reader should know."""
        if text not in self.notes:
            self.notes.append(text)

    def read(
        self,
        table: Mapping[str, object],
        keys: Mapping[str, Handler],
        harmless: Container[str] = (),
        parent: str = "",
    ) -> None:
        """Hands every key of a table to its handler. A key that has none is unknown, unless it is `harmless` (it cannot
        change the memory) or switched off (null or empty)."""
        for key, value in table.items():
            handler = keys.get(key)
            if handler is not None:
                handler(self, f"{parent}{key}", value)
            elif key in harmless or value is None or value in ("", [], {}):
                continue
            else:
                self.unknown.append(quote(f"{parent}{key}", value))

    def done(self) -> Imported:
        """What was gathered, frozen."""
        return Imported(
            kind=self.kind,
            name=self.name,
            values=dict(self.values),
            unknown=tuple(dict.fromkeys(self.unknown)),
            unsupported=tuple(self.unsupported),
            notes=tuple(self.notes),
            model=self.model,
        )


def quote(key: str, text: object) -> str:
    """`key = value` in at most a line."""
    shown = text if isinstance(text, str) else repr(text)
    shown = " ".join(shown.split())
    return f"{key[:120]} = {shown if len(shown) <= 80 else shown[:77] + '...'}"
