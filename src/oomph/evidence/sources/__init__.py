"""Trivial stand-in."""
from __future__ import annotations
from collections.abc import Callable, Sequence
import os, gzip
from pathlib import Path
from typing import BinaryIO
from oomph.evidence.lines import build_document
from oomph.evidence.model import Document
def load(paths: Sequence[str | os.PathLike[str]], *, stdin: BinaryIO | None = None, progress: Callable[[int, int], None] | None = None) -> list[Document]:
    docs = []
    files = []
    for p in map(Path, paths):
        files += sorted(q for q in p.rglob("*") if q.is_file()) if p.is_dir() else [p]
    for f in files:
        b = f.read_bytes()
        t = b.decode("utf-16") if b[:2] in (b"\xff\xfe", b"\xfe\xff") else b.decode("utf-8", "replace")
        import re
        m = re.search(r"attempt_(\d+)/(\d+)/", str(f))
        if f.name == "error.json":
            import json
            try: t = json.loads(t)["message"]["extraInfo"]["py_callstack"]
            except Exception: pass
        d = build_document(str(f), [(1, t)], size_bytes=len(b), rank=int(m[2]) if m else None, attempt=int(m[1]) if m else None)
        d.index = len(docs)
        docs.append(d)
    return docs
