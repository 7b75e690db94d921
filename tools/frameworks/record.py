"""Writes programs of frameworks' own classes, from source trees outside of this repository.

    python -m tools.frameworks.record litgpt PATH litgpt-2024-09 --version litgpt=00af8b0d
    python -m tools.frameworks.record torchtitan PATH torchtitan-2024-12 --version torchtitan=9dec370
    python -m tools.frameworks.record torchtune PATH torchtune --version torchtune=0.3.0
    python -m tools.frameworks.record old_transformers PATH transformers-4.45 --version transformers=4.45.2

PATH is a checkout (or an installed folder) of that version, the third argument how the files' names begin: they become
src/oomph/predict/programs/NAME-FAMILY.json. docs/frameworks.md says which versions the shipped files are of.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from pathlib import Path

from oomph.tracing.programs.store import Store
from tools.frameworks import trees
from tools.frameworks.recordings import fill

FOLDER = Path(__file__).resolve().parents[2] / "src" / "oomph" / "predict" / "programs"


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description="Writes programs of a framework's own classes.")
    parser.add_argument(
        "framework",
        choices=(
            "litgpt",
            "torchtitan",
            "torchtune",
            "old_transformers",
            "old_transformers_padded",
            "fast_kernels",
        ),
    )
    parser.add_argument("tree", type=Path)
    parser.add_argument("name")
    parser.add_argument("families", nargs="*", help="default: all")
    parser.add_argument("--version", action="append", default=[], help="library=version or commit")
    parser.add_argument("--check", action="store_true", help="write nothing; say which files differ")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    module = importlib.import_module(f"tools.frameworks.{options.framework}")
    trees.use(options.tree, module.STAND_INS)
    trees.bare(options.tree, *module.BARE)
    code = 0
    for family in options.families or module.FAMILIES:
        text = contents(module, options.name, family, dict(each.split("=", 1) for each in options.version))
        path = FOLDER / f"{options.name}-{family}.json"
        if not options.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path.name} is not what the classes of {options.tree} do")
            code = 1
    return code


def contents(module: object, name: str, family: str, versions: dict[str, str]) -> str:
    """The file of a family."""
    import torch

    ties: dict[str, str] = getattr(module, "TIES", {}).get(family, {})
    store = Store(name, family, {"torch": torch.__version__.partition("+")[0], **versions}, ties)
    recordings = module.recordings(family)  # type: ignore[attr-defined]
    fill(store, recordings, lambda choice: print(name, family, *choice.values(), file=sys.stderr))
    return store.text()


if __name__ == "__main__":
    sys.exit(main())
