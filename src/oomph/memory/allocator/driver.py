"""Where segments come from: addresses, as the device's driver would give them."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable

from oomph.units import GIB, MIB

#: What a reservation is for: `kind` of `Driver.reserve`.
SMALL_SEGMENT = 0
LARGE_SEGMENT = 1
#: A range of addresses for expandable segments, of which no byte is mapped yet.
ADDRESS_RANGE = 2

_DESCENDING = -1
_ASCENDING = 1
_PACKED = 2
_SHUFFLED = 3
_PAGE_BYTES = 2 * MIB
#: Seen in real snapshots: big segments start at multiples of this on Linux.
_BIG_BYTES = 32 * MIB
#: Above every address that a real device uses, so that made-up addresses never meet given ones.
_FIRST_ADDRESS = 1 << 56
#: A shuffled segment lies alone in one of 2**20 places of this size, below or above the memory that a replay starts
#: with (which lies around 1 << 58: replay/run.py).
_PLACE_BYTES = 64 * GIB
_PLACE_BITS = 20
_SHUFFLED_LOW = 1 << 57
_SHUFFLED_HIGH = 1 << 59


class Driver:
    """Hands out addresses. Only the order of addresses matters, and only between free blocks of equal size.

    `Driver.descending()`: each new segment below all before it, as mostly on Linux (seen in real snapshots).
    `Driver.ascending()`: each above, as on Windows. `Driver.packed()`: nearer to Linux: descending chunks of whole 32
    MiB, and what a segment leaves of its chunk serves later segments that fit, lowest first (how near:
    docs/hardware.md). `Driver.shuffled(seed)`: anywhere, the same for the same seed. `Driver.given()`: the addresses
    that `feed` was called with, in that order; where none is left, a descending one, counted in `invented`.
    """

    def __init__(self, direction: int = _DESCENDING, given: Iterable[int] = (), seed: int = 0) -> None:
        self.direction = direction
        self.given_addresses: deque[int] = deque(given)
        self.invented = 0
        self.seed = seed
        self._next = _FIRST_ADDRESS
        self._tails: list[tuple[int, int]] = []

    @classmethod
    def descending(cls) -> Driver:
        return cls(_DESCENDING)

    @classmethod
    def ascending(cls) -> Driver:
        return cls(_ASCENDING)

    @classmethod
    def packed(cls) -> Driver:
        return cls(_PACKED)

    @classmethod
    def shuffled(cls, seed: int) -> Driver:
        return cls(_SHUFFLED, (), seed)

    @classmethod
    def given(cls, addresses: Iterable[int] = ()) -> Driver:
        return cls(_DESCENDING, addresses)

    @property
    def rises(self) -> bool:
        """Whether each new segment lies above all before it."""
        return self.direction == _ASCENDING

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
        if self.direction == _ASCENDING:
            address = -(-self._next // _PAGE_BYTES) * _PAGE_BYTES
            self._next = address + size
            return address
        if self.direction == _PACKED and kind != ADDRESS_RANGE:
            return self._pack(size)
        if self.direction == _SHUFFLED and size <= _PLACE_BYTES and self.invented < 1 << _PLACE_BITS:
            return self._shuffle()
        step = _BIG_BYTES if kind == ADDRESS_RANGE or size >= _BIG_BYTES else _PAGE_BYTES
        return self._descend(size, step)

    def _descend(self, size: int, step: int) -> int:
        """Below everything that was handed out this way, at a multiple of `step`."""
        self._next = (self._next - size) // step * step
        return self._next

    def _pack(self, size: int) -> int:
        """In the lowest rest of a chunk that holds it, else in a new chunk below all."""
        # A rest is always smaller than a chunk.
        for place, (address, room) in enumerate(self._tails if size < _BIG_BYTES else ()):
            if room >= size:
                del self._tails[place]
                self._keep(address + size, room - size)
                return address
        whole = -(-size // _BIG_BYTES) * _BIG_BYTES
        address = self._descend(whole, _BIG_BYTES)
        self._keep(address + size, whole - size)
        return address

    def _keep(self, address: int, room: int) -> None:
        """A rest of a chunk; one that holds no segment is forgotten."""
        start = -(-address // _PAGE_BYTES) * _PAGE_BYTES
        room -= start - address
        if room >= _PAGE_BYTES:
            insort(self._tails, (start, room))

    def _shuffle(self) -> int:
        """The place with the next number, the numbers mixed so that each is used once.

        Mixing: multiplications by odd numbers and exclusive-or with a right shift, all reversible in 20 bits.
        """
        mask = (1 << _PLACE_BITS) - 1
        mixed = (self.invented + self.seed * 0x9E377) & mask
        for factor in (0x2C1B3 | 1, 0x297A5 | 1):
            mixed ^= mixed >> 9
            mixed = (mixed * (factor + 2 * self.seed)) & mask
        mixed ^= mixed >> 11
        half = 1 << (_PLACE_BITS - 1)
        if mixed < half:
            return _SHUFFLED_LOW + mixed * _PLACE_BYTES
        return _SHUFFLED_HIGH + (mixed - half) * _PLACE_BYTES
