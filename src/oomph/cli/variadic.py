"""Options that take one value or several: `--from a b --script c` is `--from a --from b --script c`."""

from __future__ import annotations

from collections.abc import Sequence

import click


class TakesSeveral(click.Command):
    """A command some of whose repeatable options go on until the next option. `several` are their names."""

    several: tuple[str, ...] = ()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, after the option is put before each of its values."""
        return super().parse_args(ctx, repeated(args, self.several))


def repeated(args: Sequence[str], names: Sequence[str]) -> list[str]:
    """The arguments with each of these options before every one of its values. "-" is a value (standard input)."""
    found: list[str] = []
    current, fresh = "", False
    for place, word in enumerate(args):
        if word == "--":
            return found + list(args[place:])
        if word in names:
            current, fresh = word, True
            found.append(word)
        elif word.startswith("-") and word != "-":
            name = word.partition("=")[0]
            current, fresh = (name, False) if name in names and "=" in word else ("", False)
            found.append(word)
        elif current and not fresh:
            found += [current, word]
        else:
            fresh = False
            found.append(word)
    return found
