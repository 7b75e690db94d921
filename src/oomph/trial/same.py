"""What besides the command decides how its trials end: an earlier trial's result holds only where this is the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Variables of the shell that change what a job allocates, or on which card.
_PREFIXES = (
    "PYTORCH_",
    "CUDA_",
    "NCCL_",
    "HIP_",
    "ROCR_",
    "TORCH_",
    "CUBLAS",
    "NVIDIA_VISIBLE",
    "OOMPH_CPU_CAPACITY",
)
#: Code and configuration. What else a command names may be its own output.
_SUFFIXES = frozenset((".py", ".sh", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ".ipynb", ".gin"))
_LARGEST = 16 << 20


def variables_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that count."""
    return {name: value for name, value in sorted(environment.items()) if name.startswith(_PREFIXES)}


def files_of(command: Sequence[str], working_directory: Path) -> dict[str, str]:
    """The scripts and configurations that the command names, by the beginning of their contents' SHA-256. What a
    script imports is not looked at."""
    found: dict[str, str] = {}
    for word in command:
        for name in {word, word.rpartition("=")[2], word.rpartition("@")[2]}:
            if Path(name).suffix.lower() not in _SUFFIXES:
                continue
            path = working_directory / name
            try:
                if path.is_file() and path.stat().st_size <= _LARGEST:
                    found[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            except (OSError, ValueError):
                continue
    return dict(sorted(found.items()))
