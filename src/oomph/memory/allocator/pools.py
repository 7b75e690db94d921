"""Private pools (CUDA graphs, MemPool), the cap on reserved memory, and emptying the cache.

Source: beginAllocateToPool, endAllocateToPool, releasePool, create_or_incref_pool, setUseOnOOM, setNoSplit,
release_cached_blocks and setMemoryFraction of c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from oomph.memory.allocator import release, sizes
from oomph.memory.allocator.arena import DEFAULT_POOL
from oomph.memory.allocator.blocks import Pool, PrivatePool
from oomph.memory.allocator.errors import ReplayError
from oomph.memory.allocator.frees import FreeingArena


class PooledArena(FreeingArena):
    """An arena with private pools. A pool is a pair of numbers; (0, 0) is the default pool."""

    def create_pool(self, pool: tuple[int, int]) -> None:
        """One more owner of the pool (a MemPool object, a graph); it is made when it is new.

        Raises ReplayError for a pool that had owners and lost them all.
        """
        known = self.private.get(pool)
        if known is None:
            self.private[pool] = PrivatePool(pool)
        elif known.uses == 0:
            raise ReplayError(f"Pool {pool} has no owner any more.")
        else:
            known.uses += 1

    def begin_pool(self, pool: tuple[int, int], streams: list[int] | None = None) -> None:
        """Requests (of these streams; None: of all) go to the pool until `end_pool`. Counts as an owner.

        While any pool is open a CUDA graph may be under capture: other streams' events are not looked at, and nothing
        is released and tried again. Raises ReplayError for a pool that is open or has lost its owners.
        """
        if any([known == pool for known, _ in self.scopes]):
            raise ReplayError(f"Pool {pool} is open already.")
        self.create_pool(pool)
        self.scopes.append((pool, None if streams is None else frozenset(streams)))

    def end_pool(self, pool: tuple[int, int]) -> None:
        """Ends `begin_pool`; the pool keeps its owner. Raises ReplayError when it is not open."""
        for place, scope in enumerate(self.scopes):
            if scope[0] == pool:
                del self.scopes[place]
                return
        raise ReplayError(f"Pool {pool} is not open.")

    def release_pool(self, pool: tuple[int, int]) -> None:
        """An owner of the pool is gone. With the last one its free memory can be released.

        Raises ReplayError for a pool without an owner.
        """
        known = self.private.get(pool)
        if known is None or known.uses == 0:
            raise ReplayError(f"Pool {pool} has no owner.")
        known.uses -= 1
        if known.uses == 0:
            self.freeable[pool] = known

    def use_on_oom(self, pool: tuple[int, int]) -> None:
        """Free blocks of this pool may serve the default pool before anything is released (recent versions)."""
        if pool not in self.fallbacks:
            self.fallbacks.append(pool)

    def no_split(self, pool: tuple[int, int]) -> None:
        """Blocks of this pool are never split (recent versions)."""
        self.unsplit.add(pool)

    def set_limit(self, limit_bytes: int | None) -> None:
        """Caps what this allocator reserves (as `set_per_process_memory_fraction`); None lifts the cap."""
        self.limited = limit_bytes is not None
        self.limit = sizes.UNLIMITED_BYTES if limit_bytes is None else limit_bytes
        self.gc = self.limited and self.gc_threshold > 0.0

    def empty_cache(self, pool: tuple[int, int] = DEFAULT_POOL) -> None:
        """As `torch.cuda.empty_cache()`: waits for all events and releases all that is free.

        Private pools give memory back only when they have no owner. With `pool`, only that one does.
        """
        if pool == DEFAULT_POOL and not self.scopes:
            self._wait_for_events()
            release.release_pool(self, self.large)
            release.release_pool(self, self.small)
        for name in list(self.freeable):
            private = self.freeable[name]
            if pool != DEFAULT_POOL:
                if name != pool:
                    continue
                if not self.scopes:
                    self._wait_for_events(private)
            release.release_pool(self, private.small)
            release.release_pool(self, private.large)
            if private.reserved.current == 0:
                del self.freeable[name]
                self.private.pop(name, None)

    def _pool(self, rounded: int, stream: int, pool: tuple[int, int]) -> Pool:
        """Where a request goes: the named pool, else the last opened one whose streams match, else the default."""
        if self.scopes and pool == DEFAULT_POOL:
            for name, streams in reversed(self.scopes):
                if streams is None or stream in streams:
                    pool = name
                    break
        if pool == DEFAULT_POOL:
            return self.small if rounded <= sizes.SMALL_BYTES else self.large
        private = self.private.get(pool)
        if private is None:
            private = PrivatePool(pool)
            self.private[pool] = private
        return private.small if rounded <= sizes.SMALL_BYTES else private.large
