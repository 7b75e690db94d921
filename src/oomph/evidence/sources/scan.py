"""One pass over a large text: what to keep of it, with the right line numbers.

Chunks that end at line ends (where lines are not endless) are searched for all trigger literals at once. Each literal
keeps windows of text around its first and last places; beside them the beginning, the end and evenly spread samples
are kept. Memory is bounded by the windows, never by the input.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import ahocorasick_rs

from oomph.evidence.sources.chunks import Chunk, chunks
from oomph.evidence.sources.limits import Limits
from oomph.evidence.sources.merge import Passage, Piece, choose
from oomph.evidence.sources.streams import Reader
from oomph.evidence.sources.triggers import MIDDLE_BYTES, TRIGGERS, Window

#: What the automaton returns: (literal's index, start, end) in the order of the text.
Hits = list[tuple[int, int, int]]

#: A literal is searched for until it was found so often, even in one of thousands of files.
_LEAST_HOT = 2_000
#: A message and what belongs to it never needs less after its first words.
_LEAST_AFTER = 2048
#: Ranks of what is kept for its place alone (see `Window.rank` for the others).
_TAIL_RANK, _HEAD_RANK, _MIDDLE_RANK, _SAMPLE_RANK = 2, 3, 5, 4


@dataclass
class Scanned:
    """What a scan kept. `size` is the length of the text; `left_out` counts hits by window name that got no place.
    `needs`: with this for `Limits.kept`, and anything up to what it was, the same would have been kept."""

    passages: list[Passage]
    size: int
    hits: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    needs: int = 0


def scan(reader: Reader, limits: Limits, *, ahead: bool = False) -> Scanned:
    """Reads `reader` to its end. With `ahead`, a second thread searches one chunk while this one reads the next."""
    scanner = _Scanner(limits)
    searched = _search_ahead if ahead else _search
    for chunk, hits in searched(chunks(reader, limits.chunk), scanner.search):
        scanner.feed(chunk, hits)
    return scanner.finish()


def _search(parts: Iterable[Chunk], search: Callable[[memoryview], Hits]) -> Iterator[tuple[Chunk, Hits]]:
    for chunk in parts:
        yield chunk.counted(), search(chunk.view)


def _search_ahead(
    parts: Iterable[Chunk], search: Callable[[memoryview], Hits]
) -> Iterator[tuple[Chunk, Hits]]:
    from concurrent.futures import Future, ThreadPoolExecutor

    waiting: tuple[Chunk, Future[Hits]] | None = None
    with ThreadPoolExecutor(1) as worker:
        for chunk in parts:
            future = worker.submit(search, chunk.view)
            # Waiting first lets the worker start on this chunk before counting takes the interpreter's lock.
            hits = waiting[1].result() if waiting is not None else []
            chunk.counted()
            if waiting is not None:
                yield waiting[0], hits
            waiting = chunk, future
        if waiting is not None:
            yield waiting[0], waiting[1].result()


class _Place:
    """A window that is being filled: text from `start` up to `end` (which later hits may move)."""

    __slots__ = ("end", "first_hit", "last_hit", "line", "start", "text")

    def __init__(self, start: int, line: int, end: int, hit: int) -> None:
        self.start = start
        self.line = line
        self.end = end
        self.first_hit = self.last_hit = hit
        self.text = bytearray()

    def piece(self, rank: int) -> Piece:
        return Piece(self.start, self.line, bytes(self.text), rank, self.first_hit, self.last_hit)

    def shrunk(self, rank: int) -> Piece:
        """Only the neighbourhood of the first hit."""
        low = max(0, self.first_hit - MIDDLE_BYTES - self.start)
        high = self.first_hit + MIDDLE_BYTES - self.start
        line = self.line + self.text.count(b"\n", 0, low)
        return Piece(self.start + low, line, bytes(self.text[low:high]), rank, self.first_hit, self.first_hit)


class _Tracker:
    """The places of one literal."""

    def __init__(self, window: Window, limits: Limits) -> None:
        shrink = limits.shrink
        self.window = window
        self.before = window.before // shrink
        self.after = max(_LEAST_AFTER, window.after // shrink)
        self.longest = max(min(window.longest // shrink, limits.kept // 2), self.before + self.after)
        self.last_places = max(1, window.last // shrink)
        self.first_places = max(1, window.first // shrink)
        self.hot = max(_LEAST_HOT, window.hot // limits.files)
        self.first: list[_Place] = []
        self.last: deque[_Place] = deque()
        self.middle: list[Piece] = []
        self.open: _Place | None = None
        self.quiet_until = -1
        self.hits = 0
        self.left_out = 0
        #: The longest window that several hits shared.
        self.shared = 0

    def close(self) -> None:
        """Files the open place among the first or the last; what falls out may stay as a middle place."""
        place, self.open = self.open, None
        if place is None:
            return
        if len(self.first) < self.first_places:
            self.first.append(place)
            return
        self.last.append(place)
        if len(self.last) > self.last_places:
            oldest = self.last.popleft()
            if len(self.middle) < self.window.middle:
                self.middle.append(oldest.shrunk(_MIDDLE_RANK))
            else:
                self.left_out += 1

    def pieces(self) -> Iterator[Piece]:
        for place in (*self.first, *self.last):
            yield place.piece(self.window.rank)
        yield from self.middle


#: A text that no log has (not UTF-8), in the place of a literal that is no longer searched for.
_NOTHING = b"\xfe\xff\xfe\xff\xfe\xff"


def _matcher(literals: list[bytes]) -> ahocorasick_rs.BytesAhoCorasick:
    """An automaton with the packed search (SIMD) that "leftmost first" allows."""
    return ahocorasick_rs.BytesAhoCorasick(
        literals,
        matchkind=ahocorasick_rs.MatchKind.LeftmostFirst,
        implementation=ahocorasick_rs.Implementation.DFA,
    )


_MATCHER = _matcher([literal for literal, _ in TRIGGERS])


class _Scanner:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._trackers: dict[int, _Tracker] = {}
        self._retired: set[int] = set()
        self._matcher = _MATCHER
        self._previous = self._current = Chunk.empty()
        self._samples: list[Piece] = []
        self._interval = 4 * limits.sample
        self._next_sample = limits.head
        self._head: list[_Place] = []
        if limits.head:
            self._head.append(_Place(0, 1, limits.head, 0))

    def search(self, view: memoryview) -> Hits:
        """The hits in one chunk; holds no lock and no state, so that another thread may call it."""
        return self._matcher.find_matches_as_indexes(view)

    def feed(self, chunk: Chunk, hits: Hits) -> None:
        """Takes what is needed of the next chunk, which has to be counted."""
        self._previous, self._current = self._current, chunk
        for index, start, _ in hits:
            tracker = self._trackers.get(index)
            if tracker is None:
                tracker = self._trackers[index] = _Tracker(TRIGGERS[index][1], self._limits)
            tracker.hits += 1
            position = chunk.base + start
            if position >= tracker.quiet_until:
                self._hit(tracker, position)
        for tracker in self._trackers.values():
            if tracker.open is not None:
                self._fill(tracker.open)
        for place in self._head:
            self._fill(place)
        self._take_samples()
        self._retire_hot()

    def _hit(self, tracker: _Tracker, position: int) -> None:
        place = tracker.open
        end = position + tracker.after
        # Hits in the first quarter of what is kept after this one need no look of their own.
        tracker.quiet_until = position + tracker.after // 4
        if place is not None and position <= place.end and end <= place.start + tracker.longest:
            place.end = max(place.end, end)
            place.last_hit = position
            tracker.shared = max(tracker.shared, end - place.start)
            return
        floor = self._previous.base
        if place is not None:
            self._fill(place)
            floor = min(position, max(floor, place.start + len(place.text)))
            tracker.close()
        start = max(position - tracker.before, floor)
        tracker.open = self._new_place(start, position, end)

    def _new_place(self, start: int, hit: int, end: int) -> _Place:
        chunk = self._current
        if start < chunk.base:
            place = _Place(start, self._previous.line_at(start), end, hit)
            place.text += self._previous.slice(start, chunk.base)
            return place
        return _Place(start, chunk.line_at(start), end, hit)

    def _fill(self, place: _Place) -> None:
        """Copies what the current chunk has of the place and what is not copied yet."""
        have = place.start + len(place.text)
        if have < place.end and have < self._current.end:
            place.text += self._current.slice(have, place.end)

    def _take_samples(self) -> None:
        limits, chunk = self._limits, self._current
        if not limits.samples:
            return
        while self._next_sample < chunk.end:
            at = max(self._next_sample, chunk.base)
            data = bytes(chunk.slice(at, at + limits.sample))
            self._samples.append(Piece(at, chunk.line_at(at), data, _SAMPLE_RANK))
            self._next_sample = at + self._interval
            if len(self._samples) > limits.samples:
                del self._samples[1::2]
                self._interval *= 2

    def _retire_hot(self) -> None:
        """Stops the search for literals that stand on every other line: their later places are not needed."""
        hot = {index for index, tracker in self._trackers.items() if tracker.hits > tracker.hot}
        if hot != self._retired:
            self._retired = hot
            # The place of a literal that is not searched for stays, so that indexes stay what they are.
            self._matcher = _matcher(
                [_NOTHING if index in hot else literal for index, (literal, _) in enumerate(TRIGGERS)]
            )

    def finish(self) -> Scanned:
        """Closes all places and chooses what is kept."""
        size = self._current.end
        pieces = list(self._samples)
        pieces += [place.piece(_HEAD_RANK) for place in self._head]
        pieces += self._tail()
        scanned = Scanned([], size)
        for tracker in self._trackers.values():
            tracker.close()
            pieces += tracker.pieces()
            name = tracker.window.name
            scanned.hits[name] = scanned.hits.get(name, 0) + tracker.hits
            scanned.left_out[name] = scanned.left_out.get(name, 0) + tracker.left_out
        needs = [
            2 * tracker.shared
            for tracker in self._trackers.values()
            if tracker.shared > tracker.before + tracker.after
        ]
        scanned.passages = choose(pieces, self._limits.kept, size, needs)
        scanned.needs = max(needs, default=0)
        return scanned

    def _tail(self) -> list[Piece]:
        if not self._limits.tail:
            return []
        start = max(self._current.end - self._limits.tail, self._previous.base)
        place = self._new_place(start, start, self._current.end)
        self._fill(place)
        return [Piece(place.start, place.line, bytes(place.text), _TAIL_RANK)]
