"""Writes the programs of attention on GPUs before compute capability 8.0, which have no flash kernel:
src/oomph/predict/programs/transformers-sm75-FAMILY.json, recorded on a simulated T4.

    python -m tools.make_older_programs            all families that have grouped heads
    python -m tools.make_older_programs llama      these families

Only what differs is there: scaled_dot_product_attention of grouped heads in half precision, which runs as ordinary
operators on such a GPU. Heads that are not grouped take the memory-efficient kernel, which a plan chooses itself.
"""

from __future__ import annotations

import argparse
import sys
import warnings

from oomph.hardware.names import gpu
from oomph.tracing.programs.families import FAMILIES, Family
from oomph.tracing.programs.forward import Studio
from oomph.tracing.programs.store import Store
from oomph.tracing.programs.ways import Way, fill, ways
from tools.make_programs import FOLDER, print_way, put, versions


def main() -> int:
    """The command; its exit code."""
    every = [name for name, family in FAMILIES.items() if any(is_wanted(way) for way in ways(family))]
    parser = argparse.ArgumentParser(description="Writes programs for GPUs without a flash kernel.")
    parser.add_argument("families", nargs="*", choices=[*every, []], help="default: all")
    parser.add_argument("--check", action="store_true", help="write nothing; say which files differ")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    code = 0
    for name in options.families or every:
        text = contents(FAMILIES[name])
        code = max(code, put(FOLDER / f"transformers-sm75-{name}.json", text, options.check))
    return code


def is_wanted(way: Way) -> bool:
    """Whether a way runs otherwise without a flash kernel."""
    return (
        way.attention == "sdpa"
        and way.heads in ("grouped", "single")
        and way.precision != "fp32"
        and not way.window
        and way.task == "causal_lm"
    )


def contents(family: Family) -> str:
    """The file of a family."""
    store = Store("transformers", family.name, versions(), family.ties)
    with Studio(gpu("t4")) as studio:
        fill(store, family, is_wanted, lambda way: print_way(family.name, way), studio)
    return store.text()


if __name__ == "__main__":
    sys.exit(main())
