"""Where between a value that fails and one that fits the next trial is worth most."""

from __future__ import annotations

from collections.abc import Collection


def trials_left(gap: int) -> int:
    """Trials that halving needs at the most for `gap` places where the limit may lie: the binary logarithm, rounded
    up."""
    return max(0, gap - 1).bit_length()


def pivot(low: int, high: int, guess: int | None, budget: int, without: Collection[int] = ()) -> int | None:
    """The place to try, between `low` (fails) and `high` (fits): the middle or, with a guess of the largest value that
    fits, that place and the one before it, first the one that leaves less if the guess is right. Never one after which
    halving could need more than `budget` trials in all, if there is another. None: there is none but those `without` an
    answer."""
    wanted = (low + high) // 2
    if guess is not None:
        # As guessed, `guess` fits and leaves what is before it; the place before fails and leaves what is behind.
        leaves = {guess: guess - low, guess - 1: high - guess + 1}
        inside = [place for place in leaves if low < place < high]
        wanted = min(inside, key=lambda place: leaves[place], default=min(max(guess, low + 1), high - 1))
        reach = 1 << max(budget - 1, 0)
        least, most = max(low + 1, high - reach), min(high - 1, low + reach)
        if least <= most:
            wanted = min(max(wanted, least), most)
    wanted = min(max(wanted, low + 1), high - 1)
    places = [place for place in range(low + 1, high) if place not in without]
    return min(places, key=lambda place: (abs(place - wanted), place), default=None)
