"""The options of PYTORCH_ALLOC_CONF (PYTORCH_CUDA_ALLOC_CONF): which there are, what they take, and what they do.

The table is alloc_conf.json, read when first asked for; it names its sources. How PyTorch parses the text and what it
refuses is `oomph.memory.allocator.parsing`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

#: The first PyTorch that reads PYTORCH_ALLOC_CONF; it warns that PYTORCH_CUDA_ALLOC_CONF is deprecated (`Warning:
#: PYTORCH_CUDA_ALLOC_CONF is deprecated, use PYTORCH_ALLOC_CONF instead`, in logs of 2.9).
GENERIC_SINCE = (2, 9)


class AllocOption(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One option. `type` is "bool", "int", "float", "text" or "list"; `range` says what PyTorch takes; `since` is the
    first PyTorch with it. `async_ignores`: backend:cudaMallocAsync does not use it. `needs`: another option without
    which it does nothing. `effect`: what it does. `verified`: the parsing rule was run on PyTorch 2.13."""

    name: str
    type: str
    since: str
    default: str = ""
    range: str = ""
    async_ignores: bool = False
    needs: str = ""
    effect: str = ""
    verified: bool = False


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    as_of: str
    sources: dict[str, str]
    options: tuple[AllocOption, ...]


@cache
def alloc_options() -> dict[str, AllocOption]:
    """Every option by name."""
    table = msgspec.json.decode(Path(__file__).with_name("alloc_conf.json").read_bytes(), type=_Table)
    return {each.name: each for each in table.options}
