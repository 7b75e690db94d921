"""Options of a command line by name: "--nodes=2", "--nodes 2", "-N 2", "-N2" are one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from oomph.evidence.environment.formats.shell_words import Word


@dataclass
class Options:
    """`values` by long name without dashes and with "-" for "_"; None where a value is not known. `rest` begins with
    the first word that is no option: the command that is started."""

    values: dict[str, list[str | None]] = field(default_factory=dict)
    rest: Sequence[Word] = ()

    def has(self, *names: str) -> bool:
        return any(name in self.values for name in names)

    def last(self, *names: str) -> str | None:
        """The value of the last of these that was given."""
        for name in names:
            if name in self.values:
                return self.values[name][-1]
        return None

    def all(self, *names: str) -> list[str | None]:
        return [value for name in names for value in self.values.get(name, [])]

    def number(self, *names: str) -> int | None:
        """A whole number; None for anything else."""
        value = self.last(*names)
        return (
            int(value)
            if value is not None and value.isascii() and value.isdigit() and len(value) < 10
            else None
        )


def read(
    words: Sequence[Word],
    *,
    short: Mapping[str, str],
    flags: Collection[str],
    flag_letters: str = "",
    single_dash: bool = False,
) -> Options:
    """The options that `words` begin with.

    `short` maps letters to long names, `flags` are long options without a value, `flag_letters` short ones.
    `single_dash`: long options may have one dash (mpirun's "-np 8").
    """
    out = Options()
    at = 0
    while at < len(words):
        text = words[at].text
        if text == "--":
            at += 1
            break
        if not text.startswith("-") or text == "-":
            break
        value = words[at].value
        if text.startswith("--") or (single_dash and len(text) > 2):
            name, equals, _ = text.lstrip("-").partition("=")
            name = name.replace("_", "-")
            given: str | None = ""
            if equals:
                given = None if value is None else value.partition("=")[2]
            elif name not in flags and at + 1 < len(words):
                at += 1
                given = words[at].value
        else:
            letter = text[1]
            name = short.get(letter, letter)
            if all(one in flag_letters for one in text[1:]):
                given = ""
            elif len(text) > 2:
                given = None if value is None else value[2:].removeprefix("=")
            elif at + 1 < len(words):
                at += 1
                given = words[at].value
            else:
                given = None
        out.values.setdefault(name, []).append(given)
        at += 1
    out.rest = words[at:]
    return out
