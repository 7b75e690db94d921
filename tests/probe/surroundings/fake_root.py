"""A root folder with a few files of /proc, /sys, /run and /etc in it."""

from __future__ import annotations

from pathlib import Path


def made(root: Path, files: dict[str, str]) -> Path:
    """Writes the files; a name that ends in "/" is a folder."""
    for name, text in files.items():
        path = root / name.lstrip("/")
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return root
