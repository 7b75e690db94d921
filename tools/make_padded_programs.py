"""Writes the programs of padded batches, src/oomph/predict/programs/transformers-padded-FAMILY.json: the attention mask
has zeros, as that of a collator that fills up samples of several lengths.

    python -m tools.make_padded_programs            all families
    python -m tools.make_padded_programs llama      these families
    python -m tools.make_padded_programs --check llama      make them anew and compare; exit 1 where one differs

Only what a mask changes is there (docs/programs.md).
"""

from __future__ import annotations

import argparse
import sys
import warnings

from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.families import FAMILIES, Family
from oomph.tracing.programs.padded import PaddedStudio, is_wanted
from oomph.tracing.programs.store import Store
from oomph.tracing.programs.ways import fill, ways
from tools.make_programs import FOLDER, print_way, put, versions


def main() -> int:
    """The command; its exit code."""
    every = [name for name, family in FAMILIES.items() if any(is_wanted(family, way) for way in ways(family))]
    parser = argparse.ArgumentParser(description="Writes programs of padded batches.")
    parser.add_argument("families", nargs="*", choices=[*every, []], help="default: all")
    parser.add_argument("--check", action="store_true", help="write nothing; say which files differ")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    code = 0
    for name in options.families or every:
        try:
            text = contents(FAMILIES[name])
        except ProgramError as error:
            print(f"{name}: {error}", file=sys.stderr)
            code = 1
            continue
        code = max(code, put(FOLDER / f"transformers-padded-{name}.json", text, options.check))
    return code


def contents(family: Family) -> str:
    """The file of a family."""
    store = Store("transformers", family.name, versions(), family.ties)
    with PaddedStudio() as studio:
        fill(
            store, family, lambda way: is_wanted(family, way), lambda way: print_way(family.name, way), studio
        )
    return store.text()


if __name__ == "__main__":
    sys.exit(main())
