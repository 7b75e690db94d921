"""What may be written for real: what would be there for every run, and is no result of one."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

_DEVICES = ("/dev", "/proc", "/sys")
#: Folders of caches by the variable that names them, and where they are without it. `~/.cache` holds most.
_CACHES: tuple[tuple[str, str], ...] = (
    ("XDG_CACHE_HOME", "~/.cache"),
    ("TORCH_HOME", ""),
    ("HF_HUB_CACHE", ""),
    ("HUGGINGFACE_HUB_CACHE", ""),
    ("HF_DATASETS_CACHE", ""),
    ("TRANSFORMERS_CACHE", ""),
    ("HF_ASSETS_CACHE", ""),
    ("HF_XET_CACHE", ""),
    ("MPLCONFIGDIR", "~/.config/matplotlib"),
    ("TRITON_CACHE_DIR", "~/.triton"),
    ("NUMBA_CACHE_DIR", ""),
    ("CUDA_CACHE_PATH", "~/.nv"),
    ("NLTK_DATA", "~/nltk_data"),
)
#: Below HF_HOME stand caches, and whatever else the user puts there.
_HF_CACHES = ("hub", "datasets", "assets", "modules", "xet", "metrics", "evaluate")


def allowed_roots(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Folders below which files are written for real."""
    roots = list(_DEVICES)
    for variable, usual in _CACHES:
        place = environment.get(variable) or usual
        if place:
            roots.append(_absolute(place))
    home = environment.get("HF_HOME")
    if home:
        roots += [posixpath.join(_absolute(home), name) for name in _HF_CACHES]
    # A cache that was put at the top of everything would let everything through.
    return tuple(root for root in roots if root not in ("/", _absolute("~")))


def _absolute(path: str) -> str:
    return posixpath.abspath(posixpath.expanduser(path))


def is_bytecode(path: str) -> bool:
    """Whether this is a compiled module in its own folder."""
    return "/__pycache__/" in path or path.endswith("/__pycache__")
