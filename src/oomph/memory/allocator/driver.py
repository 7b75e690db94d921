"""Where segments come from: addresses, as the device's driver would give them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from oomph.units import MIB

#: What a reservation is for: `kind` of `Driver.reserve`.
SMALL_SEGMENT = 0
LARGE_SEGMENT = 1
#: A range of addresses for expandable segments, of which no byte is mapped yet.
ADDRESS_RANGE = 2

_DESCENDING = -1
_ASCENDING = 1
_PAGE_BYTES = 2 * MIB
#: Seen in real snapshots: big segments start at multiples of this on Linux.
_BIG_BYTES = 32 * MIB
#: Above every address that a real device uses, so that made-up addresses never meet given ones.
_FIRST_ADDRESS = 1 << 56


class Driver:
    """Hands out addresses. Only the order of addresses matters, and only between free blocks of equal size.

    `Driver.descending()`: each new segment below all before it, as on Linux (seen in real snapshots).
    `Driver.ascending()`: each above, as on Windows. `Driver.given()`: the addresses that `feed` was called with, in
    that order; where none is left, a descending one, counted in `invented`.
    """

    def __init__(self, direction: int = _DESCENDING, given: Iterable[int] = ()) -> None:
        self.direction = direction
        self.given_addresses: deque[int] = deque(given)
        self.invented = 0
        self._next = _FIRST_ADDRESS

    @classmethod
    def descending(cls) -> Driver:
        return cls(_DESCENDING)

    @classmethod
    def ascending(cls) -> Driver:
        return cls(_ASCENDING)

    @classmethod
    def given(cls, addresses: Iterable[int] = ()) -> Driver:
        return cls(_DESCENDING, addresses)

    def feed(self, address: int) -> None:
        """The next reservation (after those already fed) starts at this address."""
        self.given_addresses.append(address)

    def clear(self) -> None:
        """Forgets what was fed and not used."""
        self.given_addresses.clear()

    def reserve(self, size: int, kind: int) -> int:
        """The address of `size` new bytes (`kind`: SMALL_SEGMENT, LARGE_SEGMENT or ADDRESS_RANGE)."""
        if self.given_addresses:
            return self.given_addresses.popleft()
        self.invented += 1
        step = _BIG_BYTES if kind == ADDRESS_RANGE or size >= _BIG_BYTES else _PAGE_BYTES
        if self.direction == _ASCENDING:
            address = -(-self._next // _PAGE_BYTES) * _PAGE_BYTES
            self._next = address + size
            return address
        self._next = (self._next - size) // step * step
        return self._next
