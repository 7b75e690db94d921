"""Writes the programs of models with several stacks of layers:
src/oomph/predict/programs/stacked/transformers-FAMILY.json, recorded from the real classes.

    python -m tools.make_stacked_programs                   all families
    python -m tools.make_stacked_programs t5 clip           these families
    python -m tools.make_stacked_programs --check t5        make them anew and compare; exit 1 and name what differs
    python -m tools.make_stacked_programs --only bf16 t5    ways to run that have all of these words
"""

from __future__ import annotations

import argparse
import sys
import warnings

from oomph.tracing.programs.errors import ProgramError
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
    parser.add_argument("--check", action="store_true", help="write nothing; say which files differ")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    code = 0
    words = [word for word in options.only.split(",") if word]
    for name in options.families or FAMILIES:
        try:
            text = contents(FAMILIES[name], words)
            code = max(code, put(FOLDER / f"transformers-{name}.json", text, options.check))
        except ProgramError as error:
            print(f"{name}: {error}", file=sys.stderr)
            code = 1
    return code


def contents(family: Family, words: list[str]) -> str:
    """The file of a family."""
    store = Store("transformers", family.name, versions(), family.ties)

    def wanted(way: Way) -> bool:
        return all(word in (str(value) for value in vars(way).values()) for word in words)

    fill(
        store, family, wanted, lambda way: print(family.name, *map(str, vars(way).values()), file=sys.stderr)
    )
    return store.text()


if __name__ == "__main__":
    sys.exit(main())
