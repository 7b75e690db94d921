"""Writes the programs: src/oomph/predict/programs/transformers-FAMILY.json, recorded from the real classes; and the
tables of their parameters: src/oomph/job/families/tables/FAMILY.json.

    python tools/make_programs.py                      all families
    python tools/make_programs.py llama gpt2           these families
    python tools/make_programs.py --only bf16,sdpa     ways to run that have all of these words; the file has only them
    python tools/make_programs.py --tables             the tables of parameters, which takes seconds
    python tools/make_programs.py --check llama        make them anew and compare; exit 1 and name what differs
    python tools/make_programs.py --check --only bf16,sdpa gpt2     the same for some variants, whatever the versions

The files speak for the torch and the transformers that are installed; a model's class decides what they say.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oomph.predict.programs.load import Variant, read
from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.families import FAMILIES, Family
from oomph.tracing.programs.store import Store
from oomph.tracing.programs.table import table
from oomph.tracing.programs.ways import Way, fill

SOURCE = Path(__file__).resolve().parent.parent / "src" / "oomph"
FOLDER = SOURCE / "predict" / "programs"
TABLES = SOURCE / "job" / "families" / "tables"


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description="Writes programs, or checks those that are there.")
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, []], help="default: all")
    parser.add_argument("--only", default="", help="words that a way to run must have, with commas")
    parser.add_argument("--tables", action="store_true", help="the tables of parameters only")
    parser.add_argument("--check", action="store_true", help="write nothing; say which files differ")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    code = 0
    for name in options.families or FAMILIES:
        try:
            code = max(code, one_family(FAMILIES[name], options))
        except ProgramError as error:
            print(f"{name}: {error}", file=sys.stderr)
            code = 1
    return code


def one_family(family: Family, options: argparse.Namespace) -> int:
    """Makes or checks the files of a family; 1 where one differs."""
    path, table_text = TABLES / f"{family.name}.json", parameters(family)
    if options.check and options.only:
        code = int(without_versions(table_text) != without_versions(path.read_text(encoding="utf-8")))
    else:
        code = put(path, table_text, options.check)
    if options.tables:
        return code
    text = contents(family, wanted(options.only), print_way)
    path = FOLDER / f"transformers-{family.name}.json"
    if options.check and options.only:
        return max(code, compare(path, text))
    return max(code, put(path, text, options.check))


def without_versions(text: str) -> dict[str, Any]:
    """A table's contents; which releases it speaks for is left out."""
    found: dict[str, Any] = json.loads(text)
    return {name: value for name, value in found.items() if name != "versions"}


def compare(path: Path, text: str) -> int:
    """Says which variants of a file are not those of `text`, which may have fewer; 1 where one is not."""
    there = read(path.read_text(encoding="utf-8")) if path.exists() else None
    known = {key(each): each for each in there.variants} if there else {}
    code = 0
    for variant in read(text).variants:
        same = key(variant) in known and known[key(variant)].program() == variant.program()
        print(f"{path.stem}, {key(variant)}: {'the same' if same else 'not what the installed class does'}")
        code = code if same else 1
    return code


def key(variant: Variant) -> str:
    """What a variant is chosen by."""
    chosen = (
        variant.precision,
        variant.attention,
        variant.heads,
        variant.one,
        variant.dropout,
        dict(variant.more),
    )
    return " ".join(map(str, chosen))


def put(path: Path, text: str, check: bool) -> int:
    """Writes a file, or says that it is another."""
    if not check:
        path.write_text(text, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != text:
        print(f"{path.relative_to(SOURCE)} is not what the installed classes do")
        return 1
    return 0


def print_way(family: str, way: Way) -> None:
    """Tells what is recorded now."""
    print(family, *(str(value) for value in vars(way).values()), file=sys.stderr)


def wanted(only: str) -> Callable[[Way], bool]:
    """Whether a way has all of the words."""
    words = [word for word in only.split(",") if word]
    return lambda way: all(word in (way.precision, way.attention, way.heads) for word in words)


def contents(family: Family, which: Callable[[Way], bool], tell: Callable[[str, Way], Any]) -> str:
    """The file of a family."""
    store = Store("transformers", family.name, versions(), family.ties)
    fill(store, family, which, lambda way: tell(family.name, way))
    return store.text()


def parameters(family: Family) -> str:
    """The table of a family."""
    return json.dumps(table(family, versions()), indent=1) + "\n"


def versions() -> dict[str, str]:
    """Those that the files speak for."""
    import torch
    import transformers

    return {"torch": torch.__version__.partition("+")[0], "transformers": transformers.__version__}


if __name__ == "__main__":
    sys.exit(main())
