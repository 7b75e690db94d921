"""From the words after `--` to a Target."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath

from oomph.errors import InputError, UsageError
from oomph.tracing.target import launchers, torchrun
from oomph.tracing.target.console import entry_point, is_python, on_path
from oomph.tracing.target.draft import Draft
from oomph.tracing.target.model import Kind, Target
from oomph.tracing.target.prefixes import strip

_INTERPRETER = re.compile(r"^(?:python|pypy)[\d.]*w?$")
_FUNCTION = re.compile(r"^[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*$")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "source", "make", "just"})
#: Python's options that take a value, and those that change how code runs and are handed on (`python --help`).
_VALUED = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_HANDED_ON = ("-W", "-X", "-O", "-b", "-d")

_Launch = Callable[[Draft], bool]
#: Launchers that are commands, by name and the word that must follow.
_COMMANDS: dict[str, tuple[str | None, _Launch]] = {
    "torchrun": (None, torchrun.launch),
    "accelerate": ("launch", launchers.accelerate),
    "accelerate-launch": (None, launchers.accelerate),
    "deepspeed": (None, launchers.deepspeed),
    "fabric": ("run", launchers.fabric),
    "lightning": ("run", launchers.fabric),
}
#: The same as modules, after `python -m`.
_MODULES: dict[str, tuple[str | None, _Launch]] = {
    "torch.distributed.run": (None, torchrun.launch),
    "torch.distributed.launch": (None, torchrun.launch),
    "accelerate.commands.launch": (None, launchers.accelerate),
    "accelerate.commands.accelerate_cli": ("launch", launchers.accelerate),
    "deepspeed.launcher.runner": (None, launchers.deepspeed),
    "lightning.fabric.cli": ("run", launchers.fabric),
}


def parse(
    words: Sequence[str], *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Target:
    """The target of a command line that would be run in `folder` (here) with `environment` (this process's).

    Raises UsageError with a sentence for what is no Python training command, InputError for a file that is not there.
    """
    if not words:
        raise UsageError(
            "Nothing to trace: write the training command after --, as in: oomph trace -- train.py"
        )
    inherited = os.environ if environment is None else environment
    draft = Draft(list(words), Path.cwd() if folder is None else folder, inherited)
    strip(draft)
    if not draft.words:
        raise UsageError(
            "Only variables and runners are left of the command: write the training command after --."
        )
    return _command(draft)


def _command(draft: Draft) -> Target:
    word = draft.words[0]
    name = PurePath(word).name
    if _INTERPRETER.match(name) and not (draft.folder / word).is_dir():
        draft.take()
        if "/" in word and not _same_python(draft.folder / word):
            draft.notes.append(
                f"{word} is not used: the script runs in the Python of oomph, {sys.executable}."
            )
        return _python(draft)
    if name in _COMMANDS and not word.endswith(".py"):
        return _launched(draft, *_COMMANDS[name])
    if name in _SHELLS:
        raise UsageError(f"{name} scripts cannot be traced: give the python command that is in them.")
    return _file_or_name(draft)


def _same_python(path: Path) -> bool:
    try:
        return path.parent.resolve() == Path(sys.executable).parent.resolve()
    except OSError:
        return False


def _python(draft: Draft) -> Target:
    """After `python`: its own options, then a script, `-m module` or `-c text`."""
    while draft.words and draft.words[0].startswith("-") and draft.words[0] != "-":
        option = draft.take()
        for short, act in (("-m", _module), ("-c", _code)):
            cluster = re.match(rf"^-[A-Za-z]*?{short[1]}(.*)$", option)
            if cluster and not option.startswith(("--", "-W", "-X")):
                if cluster.group(1):
                    draft.words.insert(0, cluster.group(1))
                if not draft.words:
                    raise UsageError(f"python {short} is given nothing to run.")
                return act(draft)
        if option == "--":
            break
        if option.startswith(_HANDED_ON):
            draft.interpreter.append(option)
        if option in _VALUED and draft.words:
            draft.interpreter.append(draft.take())
    if not draft.words or draft.words[0] == "-":
        raise UsageError("python without a script reads its program from the terminal: give a script.")
    return _script(draft)


def _module(draft: Draft) -> Target:
    name = draft.words[0]
    if name in _MODULES:
        return _launched(draft, *_MODULES[name])
    draft.take()
    return draft.finish(Kind.MODULE, name, name)


def _code(draft: Draft) -> Target:
    return draft.finish(Kind.CODE, draft.take(), "-c")


def _launched(draft: Draft, follows: str | None, launch: _Launch) -> Target:
    name = draft.take()
    if follows is not None:
        if not draft.words or draft.words[0] != follows:
            raise UsageError(
                f"Only `{name} {follows}` starts a script; nothing of it can be traced otherwise."
            )
        draft.take()
    if launch(draft):
        return draft.finish(Kind.MODULE, draft.take(), "")
    return _file_or_name(draft)


def _file_or_name(draft: Draft) -> Target:
    """A word that is a file, a function, or an installed command."""
    word = draft.words[0]
    place = draft.folder / word
    if place.is_file() or place.is_dir() or word.endswith((".py", ".pyc", ".ipynb", ".sh")):
        return _script(draft)
    if _FUNCTION.match(word):
        return draft.finish(Kind.FUNCTION, draft.take(), word)
    point = entry_point(PurePath(word).name)
    found = on_path(word, draft.folder, draft.variable("PATH"))
    if point is not None:
        draft.take()
        return draft.finish(Kind.ENTRY, point, str(found or word))
    if found is None:
        raise InputError(f"{word} is neither a file here nor a command: give the training script.")
    if is_python(found):
        draft.take()
        draft.notes.append(
            f"{found} belongs to another Python: it runs in the Python of oomph, {sys.executable}."
        )
        return draft.finish(Kind.SCRIPT, str(found), str(found))
    raise UsageError(f"{word} is no Python program: give the python command that it starts.")


def _script(draft: Draft) -> Target:
    word = draft.words[0]
    place = draft.folder / word
    if word.endswith(".ipynb"):
        raise UsageError(
            f"{word} is a notebook: trace inside it with oomph.trace(), or export it as a script."
        )
    if place.is_dir() and not (place / "__main__.py").is_file():
        raise InputError(f"{word} is a folder without __main__.py: give the training script.")
    if not place.exists():
        raise InputError(f"{word} does not exist in {draft.folder}.")
    if place.is_file() and not word.endswith((".py", ".pyc", ".pyw", ".zip", ".pyz")) and _is_shell(place):
        raise UsageError(f"{word} is a shell script: give the python command that is in it.")
    return draft.finish(Kind.SCRIPT, draft.take(), word)


def _is_shell(path: Path) -> bool:
    if path.suffix in (".sh", ".bash", ".slurm", ".sbatch"):
        return True
    with path.open("rb") as stream:
        first = stream.readline(256)
    return first.startswith(b"#!") and not is_python(path)
