"""Settings that stay the same for a project: oomph.toml, or `[tool.oomph]` in pyproject.toml.

Both are looked for in the current folder; oomph.toml wins. In oomph.toml the keys may stand at the top level or in a
`[tool.oomph]` table. Keys: `select` and `ignore` (lists of rule codes or beginnings of them), `format`. The table
`verify` is for `oomph verify` (oomph.diagnose.verify.settings).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomph.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Values of `--format` and of the setting of that name.
FORMATS = ("text", "json", "markdown", "sarif", "github")


@dataclass(frozen=True)
class Settings:
    """What the project's file sets; empty where it is silent. `source` names the file."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    format: str | None = None
    source: str = ""


def load_settings(folder: Path) -> Settings:
    """Reads the settings of `folder`. Raises UsageError for a key or value that makes no sense."""
    for name in ("oomph.toml", "pyproject.toml"):
        path = folder / name
        table = _table(path)
        if table is not None:
            return _settings(table, name)
    return Settings()


def _table(path: Path) -> dict[str, Any] | None:
    """The file's table for oomph; None when there is no file or nothing for oomph in it."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    own = path.name == "oomph.toml"
    # A damaged pyproject.toml that never mentions oomph must not stand between a user and an answer.
    if not own and b"oomph" not in data:
        return None
    try:
        content = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path.name}: not valid TOML: {error}") from error
    tool = content.get("tool")
    table = tool.get("oomph") if isinstance(tool, dict) else None
    if table is None and own:
        return {key: value for key, value in content.items() if key != "tool"}
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{path.name}: tool.oomph must be a table")
    return table


def tables_of(folder: Path, name: str) -> tuple[str, dict[str, Any]]:
    """Where the project's file has the table of that name within its own, and that table ({} where there is none).
    Raises UsageError for something else under that name."""
    for file in ("oomph.toml", "pyproject.toml"):
        table = _table(folder / file)
        if table is None:
            continue
        inner = table.get(name, {})
        if not isinstance(inner, dict):
            raise UsageError(f"{file}: {name} must be a table")
        return f"{file}: {name}", inner
    return "", {}


def _settings(table: dict[str, Any], source: str) -> Settings:
    unknown = sorted(set(table) - {"select", "ignore", "format", "verify"})
    if unknown:
        raise UsageError(f"{source}: unknown key {unknown[0]!r}; known are select, ignore, format and verify")
    chosen = table.get("format")
    if chosen is not None and chosen not in FORMATS:
        raise UsageError(f"{source}: format is {chosen!r}; it must be one of {', '.join(FORMATS)}")
    return Settings(
        select=_codes(table, "select", source),
        ignore=_codes(table, "ignore", source),
        format=chosen,
        source=source,
    )


def _codes(table: dict[str, Any], key: str, source: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f'{source}: {key} must be a list of rule codes, like ["OOM2"]')
    return tuple(value)
