"""Keys and values that generation keeps: how many bytes a layer has of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from oomph.predict.compose.setup import Setup
from oomph.predict.engine.compiled import packet
from oomph.predict.engine.heap import ITEM
from oomph.predict.programs.load import Program, Section

_ATTENTION = ("aten._scaled_dot_product", "flash_attn.forward")
#: What hands on what it was given, in the same type or (the first) in another.
_CAST = "aten._to_copy"
_NAMES = "view _unsafe_view transpose permute t expand unsqueeze squeeze clone reshape slice alias"
_SAME = frozenset(f"aten.{name}" for name in _NAMES.split())


@dataclass(frozen=True)
class Cache:
    """The cache of a setup. Under tensor parallelism a rank has its own heads only."""

    setup: Setup

    def keys_bytes(self, rows: int, tokens: int) -> int:
        """Keys of one layer."""
        return rows * tokens * self._width * self._items[0]

    def values_bytes(self, rows: int, tokens: int) -> int:
        """Values of one layer."""
        return rows * tokens * self._width * self._items[1]

    def slides(self, layer: int) -> bool:
        """Whether a layer keeps its window only: transformers' cache does where the configuration has one."""
        return self.setup.kind(layer) != "full"

    @property
    def _width(self) -> int:
        dims = self.setup.dims
        heads = -(-dims.get("kv_heads", dims.get("heads", 1)) // self.setup.job.parallel.tensor)
        return heads * dims["head_dim"]

    @cached_property
    def _items(self) -> tuple[int, int]:
        """Bytes of an element of keys and of values: the type before autocast makes that of attention. (A rotary
        embedding in fp32 makes keys fp32, and leaves values as the projection made them.)"""
        program = self.setup.program
        section = program.sections["block"]
        for item in section.items:
            if item[0] == "op" and str(item[1]).startswith(_ATTENTION):
                key, value = (
                    ITEM[program.tensors[_before_cast(program, section, item[2][place]["t"])][3]]
                    for place in (1, 2)
                )
                return key, value
        low = not self.setup.precision.startswith("fp32")
        return (2, 2) if low else (4, 2 if self.setup.precision.endswith("autocast") else 4)


def _before_cast(program: Program, section: Section, number: int) -> int:
    """The tensor that a section casts to make this one, or this one."""
    made = {
        result: item for item in section.items if item[0] == "op" for result in item[3] if result is not None
    }
    place = number
    while place in made:
        item = made[place]
        name = packet(item[1])
        source = item[2][0]
        if not isinstance(source, dict) or "t" not in source or name not in (*_SAME, _CAST):
            return number
        place = source["t"]
        if name == _CAST:
            return place if program.storages[program.tensors[place][0]][0] != "parameter" else number
    return number
