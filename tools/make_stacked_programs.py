"""Writes the programs of models with several stacks of layers:
src/oomph/predict/programs/stacked/transformers-FAMILY.json, recorded from the real classes.

    python -m tools.make_stacked_programs                   all families
    python -m tools.make_stacked_programs t5 clip           these families
    python -m tools.make_stacked_programs --check t5        make them anew and compare; exit 1 and name what differs
    python -m tools.make_stacked_programs --only bf16 t5    ways to run that have all of these words
    python -m tools.make_stacked_programs --missing t5      ways that the file does not have; the others are taken over
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

from oomph.predict.programs.items import whole_item
from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.record import Made
from oomph.tracing.programs.stacked.families import FAMILIES, Family
from oomph.tracing.programs.stacked.ways import Way, fill
from oomph.tracing.programs.store import Store
from tools.make_programs import SOURCE, put, versions

FOLDER = SOURCE / "predict" / "programs" / "stacked"


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(
        description="Writes programs of models with several stacks, or checks them."
    )
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, []], help="default: all")
    parser.add_argument("--only", default="", help="words that a way to run must have, with commas")
    parser.add_argument("--missing", action="store_true", help="take over what the file has")
    parser.add_argument("--check", action="store_true", help="write nothing; say which files differ")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    code = 0
    words = [word for word in options.only.split(",") if word]
    for name in options.families or FAMILIES:
        try:
            path = FOLDER / f"transformers-{name}.json"
            known = {} if not options.missing or not path.exists() else there(path)
            code = max(code, put(path, contents(FAMILIES[name], words, known), options.check))
        except ProgramError as error:
            print(f"{name}: {error}", file=sys.stderr)
            code = 1
    return code


Known = dict[tuple[Any, ...], list[tuple[dict[str, Any], Made]]]


def there(path: Path) -> Known:
    """What a file has for each way: variants with what they are chosen by."""
    data, found = json.loads(path.read_text(encoding="utf-8")), Known()
    for row in data["variants"]:
        names = [each.name for each in fields(Way) if each.name != "one"]
        key = tuple(row.get(name, False if name == "padded" else "") for name in names)
        sections = {name: _section(data, data["sections"][place]) for name, place in row["sections"].items()}
        choice = {name: value for name, value in row.items() if name not in ("sections", "kept")}
        found.setdefault(key, []).append((choice, Made(sections, row["kept"])))
    return found


def _section(data: dict[str, Any], raw: dict[str, Any]) -> dict[str, Any]:
    """A section without tables."""
    return {
        **raw,
        "storages": [data["storages"][place] for place in raw["storages"]],
        "tensors": [[storage, *data["layouts"][layout]] for storage, layout in raw["tensors"]],
        "items": [whole_item(data, item) for item in raw["items"]],
    }


def contents(family: Family, words: list[str], known: Known) -> str:
    """The file of a family; `known` is taken over."""
    store = Store("transformers", family.name, versions(), family.ties)

    def wanted(way: Way) -> bool:
        return all(word in (str(value) for value in vars(way).values()) for word in words)

    def tell(way: Way) -> None:
        print(family.name, *map(str, vars(way).values()), file=sys.stderr)

    fill(store, family, wanted, known, tell)
    return store.text()


if __name__ == "__main__":
    sys.exit(main())
