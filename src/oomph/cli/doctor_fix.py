"""`oomph doctor --script FILE --fix`, and `--diff`, which changes nothing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from oomph.cli.output import emit, one_line, write_file
from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.cli.doctor import Request
    from oomph.diagnose.script.fix import Fixed

#: Fixes that overlap are made one after the other; each round reads the file anew.
_ROUNDS = 5


def show(request: Request, select: tuple[str, ...], ignore: tuple[str, ...]) -> int:
    """Prints the diff, or writes it to the file of -o. Returns 1 where something would change, else 0."""
    every = _fixed(request.scripts, select, ignore)
    text = "".join(one.diff for one in every)
    if request.output_path is not None:
        write_file(request.output_path, text)
    elif text:
        emit(text)
    _tell(request, every, "would change")
    return 0 if request.exit_zero else int(bool(text))


def fix(request: Request, select: tuple[str, ...], ignore: tuple[str, ...]) -> None:
    """Writes the fixed scripts in place. All are read and checked before the first is written."""
    for _ in range(_ROUNDS):
        every = _fixed(request.scripts, select, ignore)
        changed = [one for one in every if one.codes]
        for one in changed:
            _write(Path(one.script.source), one)
        _tell(request, changed or every, "changed")
        if not changed or not any([one.left for one in changed]):
            return


def _fixed(paths: tuple[str, ...], select: tuple[str, ...], ignore: tuple[str, ...]) -> list[Fixed]:
    from oomph.diagnose.script.engine import check_scripts
    from oomph.diagnose.script.fix import fixed

    found = check_scripts(paths, select=select, ignore=ignore)
    return [fixed(script, found.findings) for script in found.read]


def _tell(request: Request, every: list[Fixed], verb: str) -> None:
    if request.quiet:
        return
    for one in every:
        if one.codes:
            what = ", ".join(f"{code} (line {line})" for code, line in one.codes)
            click.echo(one_line(f"{verb} {one.script.source}: {what}"), err=True)
        for code, line, why in one.left:
            click.echo(one_line(f"not changed: {one.script.source}, line {line}, {code}: {why}"), err=True)
    if not any([one.codes or one.left for one in every]):
        click.echo("nothing that can be changed safely", err=True)


def _write(target: Path, one: Fixed) -> None:
    """The new text in the old file's place: same line ends, same mark, same permissions. Readers see the old file or
    the whole new one."""
    real = target.resolve()
    temporary = real.with_name(f".{real.name}.oomph-tmp")
    try:
        mode = real.stat().st_mode & 0o7777
        temporary.write_bytes(one.text.encode(one.script.encoding))
        temporary.chmod(mode)
        temporary.replace(real)
    except (OSError, UnicodeError) as error:
        with suppress(OSError):
            temporary.unlink()
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{target}: cannot be written: {reason}; nothing in it was changed") from error
