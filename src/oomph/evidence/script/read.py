"""A file to a Script or a Config: what it is told by its name and its content."""

from __future__ import annotations

import json
from pathlib import Path

import libcst as cst

from oomph.errors import InputError
from oomph.evidence.script.config import read_config
from oomph.evidence.script.notebook import read_notebook
from oomph.evidence.script.source import Config, Script

#: Scripts that people train with have some thousand lines; what is larger is no script, and libcst would take minutes.
_LONGEST_BYTES = 4 << 20


def read_script(path: str | Path) -> Script | Config:
    """Reads a Python file, a notebook, or a YAML or JSON configuration.

    Raises InputError, with a sentence, where the file is not there, is too large, or is none of these; for Python
    that cannot be parsed it names the line.
    """
    name = str(path)
    try:
        size = Path(path).stat().st_size
        if Path(path).is_dir():
            raise InputError(f"{name} is a folder: name the scripts in it, one --script each.")
        if size > _LONGEST_BYTES:
            raise InputError(f"{name} has {size >> 20} MiB: no script is so long. Name the training script.")
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}.") from error
    text, encoding = _decoded(name, data)
    suffix = Path(path).suffix.lower()
    if not text.strip():
        raise InputError(f"{name} is empty: name the training script, or a configuration of it.")
    if suffix == ".ipynb":
        return _parsed(read_notebook(name, text))
    if suffix in (".yaml", ".yml", ".json", ".jsonc"):
        return read_config(name, text)
    if suffix not in (".py", ".pyw") and _is_json(text):
        return read_config(name, text)
    return _parsed(Script(name, text, encoding=encoding))


def _parsed(script: Script) -> Script:
    try:
        _ = script.module
    except cst.ParserSyntaxError as error:
        where = ""
        if script.places and error.raw_line <= len(script.places):
            cell, line = script.places[error.raw_line - 1]
            where = f"{cell}, line {line}"
        raise InputError(
            f"{script.source} is no Python that can be parsed: {where or f'line {error.raw_line}'} is where it ends "
            "to make sense. Name a Python 3 script, a notebook, or a YAML or JSON configuration."
        ) from error
    except (RecursionError, UnicodeError, ValueError) as error:
        raise InputError(f"{script.source} cannot be parsed: it is nested too deep, or no text.") from error
    return script


def _decoded(name: str, data: bytes) -> tuple[str, str]:
    """The text, and in which encoding it is."""
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    if b"\0" in data[:65536] and not wide:
        raise InputError(f"{name} is a binary file: name the training script, or a configuration of it.")
    marked = data.startswith(b"\xef\xbb\xbf")
    for encoding in ("utf-16" if wide else "utf-8-sig" if marked else "utf-8", "latin-1"):
        try:
            return data.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    return data.decode("utf-8", "replace"), ""


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
