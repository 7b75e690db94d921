"""Where data goes: standard output, or a file that is replaced in one step."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import click

from oomph.errors import UsageError


def tolerate_any_text(stream: TextIO) -> None:
    """Lets a console that lacks a character (a Windows code page, ASCII) print "?" for it instead of failing."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def silence_broken_pipe() -> None:
    """After the reader of stdout went away (`| head`): nothing more is written, not even at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def emit(text: str, *, colour: bool = False) -> None:
    """Writes `text` and a line end to standard output. A reader who stopped reading is no error, and neither is a
    standard output that was closed (`>&-`): the exit code is what was wanted."""
    if sys.stdout is None:
        return
    try:
        click.echo(text, nl=not text.endswith("\n"), color=colour)
        sys.stdout.flush()
    except BrokenPipeError:
        silence_broken_pipe()


def one_line(sentence: str) -> str:
    """`sentence` with "?" for what a file's name may have and a terminal or a CI service could obey."""
    return "".join(character if character.isprintable() else "?" for character in sentence)


def check_target(target: Path, inputs: tuple[str, ...] = (), *, option: str = "-o") -> None:
    """Raises UsageError where `write_file` would fail or destroy something, before any work is done.

    Only regular files are replaced (not folders, devices or pipes), and none of the `inputs`. `option` gave the path.
    """
    another = f"give another path to {option}"
    try:
        exists = target.exists()
        if exists and not target.is_file():
            raise UsageError(f"{target}: not a regular file, will not be overwritten; {another}")
        real = target.resolve()
        if not real.parent.is_dir():
            raise UsageError(f"{target}: the folder {target.parent} does not exist; create it or {another}")
        for name in inputs:
            with suppress(OSError):
                if exists and target.samefile(name):
                    raise UsageError(f"{target}: is one of the inputs; {another}")
        # What may be written shows only when something is.
        probe = real.with_name(f".oomph-{os.getpid()}.probe")
        probe.open("x").close()
        probe.unlink()
    except (OSError, ValueError) as error:  # no permission, a full disk, a name that is too long, a NUL in it
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{target}: cannot be written: {reason}; {another}") from None


def write_file(target: Path, text: str) -> None:
    """Writes `text` as UTF-8 so that readers see the old file or the whole new one. Raises UsageError."""
    real = target.resolve()  # a link goes on pointing where it did
    temporary = real.with_name(f".oomph-{os.getpid()}.tmp")
    try:
        mode = real.stat().st_mode & 0o777 if real.exists() else None
        with temporary.open("x", encoding="utf-8", errors="replace", newline="\n") as stream:
            stream.write(text if text.endswith("\n") else text + "\n")
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(real)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise UsageError(f"{target}: cannot be written: {error.strerror or error}") from error
