"""Scripts that record themselves without a change: a `sitecustomize` on the command's PYTHONPATH, which starts
`oomph.auto` when PyTorch is imported. docs/decisions/0014-run-directory.md says why that is safe, and where it is not
done."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

#: The folder that goes first in PYTHONPATH. It holds one module, so that it hides nothing but another sitecustomize,
#: which it runs.
FOLDER = Path(__file__).resolve().parent / "site"


def with_hook(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with the hook in it. A PYTHONPATH that is not set stays without the empty entry that would mean
    the working directory."""
    given = dict(environment)
    before = given.get("PYTHONPATH", "")
    given["PYTHONPATH"] = f"{FOLDER}{os.pathsep}{before}" if before else str(FOLDER)
    return given
