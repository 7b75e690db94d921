"""A file that appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from oomph.errors import UsageError


def check_target(target: Path, inputs: tuple[str, ...] = ()) -> None:
    """Raises UsageError where `replacing` would fail or destroy something: only regular files are replaced, never one
    of the `inputs`."""
    try:
        exists = target.exists()
        if exists and not target.is_file():
            raise UsageError(f"{target}: not a regular file, will not be overwritten; export to another path")
        if not target.resolve().parent.is_dir():
            raise UsageError(
                f"{target}: the folder {target.parent} does not exist; create it or export elsewhere"
            )
        for name in inputs:
            with suppress(OSError, ValueError):
                if exists and target.samefile(name):
                    raise UsageError(f"{target}: is the snapshot that is being read; export to another path")
    except (OSError, ValueError) as error:  # a name that is too long, a NUL in it
        raise UsageError(f"{str(target)!r} cannot be written: {error}") from None


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """A stream whose bytes become `target` in one step when the block ends; nothing is left when it fails.

    Raises UsageError where the file system refuses. A link goes on pointing where it did, and an old file's
    permissions stay.
    """
    real = target.resolve()
    temporary = real.with_name(f".oomph-export-{os.getpid()}.tmp")
    made = False
    try:
        with temporary.open("xb") as stream:
            made = True
            yield stream
        if real.exists():
            temporary.chmod(real.stat().st_mode & 0o777)
        temporary.replace(real)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        if made:
            with suppress(OSError):
                temporary.unlink()
