"""What an interpreter has installed, found without importing any of it.

This file is also run as a program by another interpreter (`python -c`), which may be an old one: it uses nothing but
the standard library, and nothing of oomph.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and sys.path and sys.path[0] in ("", "."):
    del sys.path[0]  # a file of the current folder is no part of the standard library

import ast
import contextlib
import json
import re
from typing import Any

metadata: Any = None
with contextlib.suppress(ImportError):  # Python 3.7 has none
    from importlib import metadata

#: Packages that a check may ask for.
WANTED = re.compile(
    r"(?:nvidia-.+|torch.*|pytorch.*|triton.*|cupy.*|xformers|flash-attn|bitsandbytes|deepspeed|transformers|accelerate"
    r"|vllm|apex|transformer-engine.*|jax.*|tensorflow.*)\Z"
)


def normalized(name: str) -> str:
    """A distribution's name as PEP 503 has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def look() -> dict[str, Any]:
    """`packages` (versions by name), what PyTorch `requires`, and the constants of its version.py under `torch`;
    `problem` says why nothing could be told."""
    found: dict[str, Any] = {
        "python": sys.executable or "",
        "version": "{}.{}.{}".format(*sys.version_info[:3]),
        "packages": {},
        "requires": [],
        "torch": {},
        "torch_file": "",
        "problem": "",
    }
    if metadata is None:
        found["problem"] = "this Python is too old to tell what is installed"
        return found
    torch = None
    for one in metadata.distributions():
        try:
            name = normalized(one.metadata["Name"] or "")
            if not WANTED.match(name) or name in found["packages"]:
                continue  # the first on the path is the one that is imported
            found["packages"][name] = str(one.version)
        except Exception:  # noqa: BLE001, S112 - a damaged package says nothing
            continue
        if name == "torch":
            torch = one
    if torch is not None:
        found["requires"] = [str(each) for each in torch.requires or ()]
        place = torch.locate_file("torch/version.py")
        found["torch_file"] = str(place)
        try:
            with open(str(place), encoding="utf-8", errors="replace") as stream:  # noqa: PTH123 - old interpreters
                found["torch"] = constants(stream.read(1 << 16))
        except OSError:
            pass
    return found


def constants(text: str) -> dict[str, Any]:
    """The constants that a module sets at its top level, of the names that a torch/version.py has."""
    found: dict[str, Any] = {}
    try:
        lines = ast.parse(text).body
    except (SyntaxError, ValueError):
        return found
    for line in lines:
        target: ast.expr
        if isinstance(line, ast.Assign) and len(line.targets) == 1:
            target = line.targets[0]
        elif isinstance(line, ast.AnnAssign):
            target = line.target
        else:
            continue
        if not isinstance(target, ast.Name) or target.id not in ("__version__", "cuda", "hip", "xpu"):
            continue
        try:
            found[target.id] = ast.literal_eval(line.value) if line.value is not None else None
        except ValueError:
            continue
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look()))
