"""What stands before the Python command and does not change what the script allocates: it is taken off, and said."""

from __future__ import annotations

import re
from pathlib import PurePath

from oomph.errors import UsageError
from oomph.tracing.target.draft import Draft
from oomph.tracing.target.flags import words

_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")
#: Runners by name, with the words that must follow and those of their options that take a value.
_RUNNERS: dict[str, tuple[str | None, frozenset[str]]] = {
    "uv": (
        "run",
        words("""--with --with-requirements --with-editable --extra --group --no-group --only-group --python -p --index
            --index-url -i --extra-index-url --find-links -f --package --project --directory --env-file
            --config-file --cache-dir"""),
    ),
    "poetry": ("run", frozenset({"-C", "--directory", "-P", "--project"})),
    "pdm": ("run", frozenset({"-p", "--project", "--venv"})),
    "hatch": ("run", frozenset({"-e", "--env"})),
    "pipenv": ("run", frozenset()),
    "pixi": ("run", frozenset({"-e", "--environment", "--manifest-path"})),
    "rye": ("run", frozenset({"--pyproject"})),
    "conda": ("run", frozenset({"-n", "--name", "-p", "--prefix", "--cwd"})),
    "mamba": ("run", frozenset({"-n", "--name", "-p", "--prefix", "--cwd"})),
    "srun": (None, frozenset()),
    "mpirun": (None, frozenset()),
    "nohup": (None, frozenset()),
    "time": (None, frozenset({"-f", "-o"})),
    "nice": (None, frozenset({"-n"})),
    "ionice": (None, frozenset({"-c", "-n"})),
    "stdbuf": (None, frozenset({"-i", "-o", "-e"})),
    "taskset": (None, frozenset()),
    "numactl": (None, frozenset({"-N", "-m", "-C", "-i"})),
    "xvfb-run": (None, frozenset({"-n", "-s"})),
    "exec": (None, frozenset()),
}
#: Those that start many processes: what they say of their number is theirs to say, with --world.
_STARTERS = frozenset({"srun", "mpirun"})
#: What a Python command line can begin with, for runners whose options are too many to know.
_PYTHON = re.compile(r"^(?:.*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|fabric|lightning|[^-=]*\.py)$")


def strip(draft: Draft) -> None:
    """Takes assignments (`NAME=value`, `env NAME=value`) and runners off the front of the draft."""
    while draft.words:
        word = draft.words[0]
        name = PurePath(word).name
        if _ASSIGNMENT.match(word):
            key, _, value = draft.take().partition("=")
            draft.environment[key] = value
        elif name == "env":
            draft.take()
            _env(draft)
        elif name in _RUNNERS and not word.endswith(".py"):
            _runner(draft, name)
        else:
            return


def _env(draft: Draft) -> None:
    while draft.words and draft.words[0].startswith("-"):
        option = draft.take()
        if option in ("-u", "--unset") and draft.words:
            draft.environment[draft.take()] = ""
        elif option in ("-i", "--ignore-environment", "-"):
            draft.notes.append("env -i is left out: the variables of this shell stay.")


def _runner(draft: Draft, name: str) -> None:
    before = list(draft.words)
    follows, valued = _RUNNERS[name]
    draft.take()
    if follows is not None:
        _options(draft, valued)
        if not draft.words or draft.words[0] != follows:
            raise UsageError(f"{' '.join(before[:2])} runs no script: give the python command.")
        draft.take()
    if name in _STARTERS or name == "taskset":
        _to_python(draft, name)
    else:
        _options(draft, valued)
    if draft.words and draft.words[0] == "--":
        draft.take()
    taken = " ".join(before[: len(before) - len(draft.words)])
    many = " How many processes it starts is not read: give --world." if name in _STARTERS else ""
    draft.notes.append(
        f"{taken} is left out: the script runs in the Python that oomph is installed in.{many}"
    )


def _options(draft: Draft, valued: frozenset[str]) -> None:
    while draft.words and draft.words[0].startswith("-") and draft.words[0] != "--":
        option = draft.take()
        if option in valued and draft.words:
            draft.take()


def _to_python(draft: Draft, name: str) -> None:
    """Skips to the first word that can begin a Python command: these runners have hundreds of options."""
    for position, word in enumerate(draft.words):
        if _PYTHON.match(word) or _ASSIGNMENT.match(word):
            del draft.words[:position]
            return
    raise UsageError(f"No Python command is found after {name}: give the python command alone.")
