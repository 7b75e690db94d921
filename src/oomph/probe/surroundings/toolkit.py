"""CUDA toolkits that are installed beside PyTorch's own libraries."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from oomph.probe.surroundings.seen import ROOT, Seen, read

_TEXT = re.compile(r"CUDA Version (\d+\.\d+(?:\.\d+)?)")


def toolkits(root: Path = ROOT, environment: Mapping[str, str] | None = None) -> tuple[Seen[str], ...]:
    """By the version.json (since 11.1) or version.txt that a toolkit has: of CUDA_HOME, CUDA_PATH, /usr/local/cuda."""
    variables = environment or {}
    folders = [variables.get("CUDA_HOME", ""), variables.get("CUDA_PATH", ""), "/usr/local/cuda"]
    found: list[Seen[str]] = []
    for folder in dict.fromkeys(each.rstrip("/") for each in folders if each.startswith("/")):
        seen = _json(root, f"{folder}/version.json") or _txt(root, f"{folder}/version.txt")
        if seen is not None:
            found.append(seen)
    return tuple(found)


def _json(root: Path, path: str) -> Seen[str] | None:
    try:
        content = json.loads(read(root, path) or "")
    except (ValueError, RecursionError):
        return None
    cuda = content.get("cuda") if isinstance(content, dict) else None
    version = cuda.get("version") if isinstance(cuda, dict) else None
    return Seen(version, path, f"CUDA {version}") if isinstance(version, str) else None


def _txt(root: Path, path: str) -> Seen[str] | None:
    match = _TEXT.search(read(root, path) or "")
    return Seen(match[1], path, match[0]) if match else None
