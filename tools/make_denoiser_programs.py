"""Writes the programs of denoisers: src/oomph/predict/programs/denoisers/diffusers-NAME.json, recorded from diffusers'
classes and its scripts' loops (docs/diffusion.md).

    python -m tools.make_denoiser_programs               all
    python -m tools.make_denoiser_programs flux          one
    python -m tools.make_denoiser_programs --only bf16   only these precisions (with commas); the file has only them
    python -m tools.make_denoiser_programs --check flux  make it anew and compare; exit 1 where it differs
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

from oomph.tracing.programs.denoisers.families import FAMILIES, contents
from oomph.tracing.programs.errors import ProgramError

FOLDER = Path(__file__).resolve().parent.parent / "src" / "oomph" / "predict" / "programs" / "denoisers"


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(
        description="Writes programs of denoisers, or checks those that are there."
    )
    parser.add_argument("names", nargs="*", choices=[*FAMILIES, []], help="default: all")
    parser.add_argument("--only", default="", help="precisions, with commas")
    parser.add_argument("--check", action="store_true", help="write nothing; say which files differ")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    code = 0
    for name in options.names or FAMILIES:
        path = FOLDER / f"diffusers-{name}.json"
        try:
            only = tuple(options.only.split(",")) if options.only else ()
            text = contents(name, only, lambda line: print(line, file=sys.stderr))
        except ProgramError as error:
            print(f"{name}: {error}", file=sys.stderr)
            code = 1
            continue
        if not options.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path.name} is not what the installed classes do")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
