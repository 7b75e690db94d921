"""CUDA toolkits beside PyTorch's: `nvcc --version`, CUDA's version files."""

from __future__ import annotations

import re

from oomph.evidence.environment.found import Found
from oomph.evidence.environment.parts import Part

_NVCC = re.compile(r"Cuda compilation tools, release \d{1,2}\.\d{1,2}, V(\d{1,2}\.\d{1,2}\.\d{1,4})")
_RELEASE = re.compile(r"Cuda compilation tools, release (\d{1,2}\.\d{1,2})")
_FILE = re.compile(r"CUDA Version (\d{1,2}\.\d{1,2}\.\d{1,4})\s*$")


def parse(part: Part, found: Found) -> None:
    """Toolkits by version."""
    for line in part.lines:
        text = line.text.strip()
        if len(text) > 300 or "uda" not in text.lower():
            continue
        match = _NVCC.search(text) or _RELEASE.search(text) or _FILE.match(text)
        if match is not None:
            found.take(part.source, "nvcc --version")
            found.add("toolkits", match[1], part.quote(line))
