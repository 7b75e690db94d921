"""Keys that cannot change how much memory a job needs, by format: harmless.txt beside this file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Harmless:
    """Names, and beginnings of names."""

    names: frozenset[str]
    prefixes: tuple[str, ...]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and (key in self.names or key.startswith(self.prefixes))


@cache
def _sections() -> dict[str, tuple[str, ...]]:
    text = (files("oomph.job.importers.formats") / "harmless.txt").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    section: list[str] = []
    for line in text.splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), [])
        elif not line.startswith("#"):
            section.extend(line.split())
    return {name: tuple(words) for name, words in found.items()}


@cache
def harmless(*formats: str) -> Harmless:
    """The keys of one or several sections of harmless.txt, where `wandb_*` stands for all that begin with `wandb_`.
    KeyError where there is no such section."""
    words = [word for name in formats for word in _sections()[name]]
    names = frozenset(word for word in words if not word.endswith("*"))
    return Harmless(names, tuple(word[:-1] for word in words if word.endswith("*")))
