"""`oomph trace --largest KEY`: the largest value of one of the script's flags with which it fits."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from oomph.errors import InputError

if TYPE_CHECKING:
    from oomph.cli.trace import Request
    from oomph.cli.trace_run import Answer
    from oomph.report.trace.wire import Largest

#: No batch and no length is larger.
MOST = 1 << 24
#: The search ends when what does not fit is above what fits by less than this part of it: small values are exact.
_NEAR = 32

Rules = tuple[Sequence[str], Sequence[str]]


def find_largest(request: Request, rules: Rules, folder: Path) -> tuple[Largest, list[Answer]]:
    """The largest value that fits, and the answer for it (for 1 where even that does not fit).

    Raises InputError where the script ends with an exception of its own before anything is known.
    """
    from oomph.cli.trace_run import say, say_written
    from oomph.report.trace.wire import Largest

    key = str(request.largest)
    best: list[tuple[int, Answer]] = []  # the last that fits, or the first
    each = replace(request, save=None)

    def fits(value: int) -> bool | None:
        place = folder / str(value)
        place.mkdir()
        answer = _traced(each, key, value, rules, place)
        judged = answer.report.fits
        if answer.report.failed is not None and not answer.report.failed.out_of_memory:
            judged = None
        if judged or not best:
            best[:] = [(value, answer)]
        if not request.quiet:
            word = {True: "fits", False: "does not fit", None: "the script fails by itself"}[judged]
            say(request, f"{key}={value}: {word}")
        return judged

    value, fails_at, tried = search(fits)
    shown, answer = best[0]
    if tried[1] is None:
        failed = answer.report.failed
        what = "" if failed is None else f", with {failed.kind}"
        raise InputError(f"--largest {key}: with {key}=1 the script ends by itself{what}; see above.")
    if request.save is not None:
        from oomph.cli.trace_run import trace_file

        shutil.copyfile(trace_file(each, answer.report.rank, folder / str(shown), many=False), request.save)
        say_written(request.save, request)
    found = Largest(
        flag=key,
        value=value,
        fails_at=fails_at,
        tried={str(one): judged for one, judged in sorted(tried.items())},
    )
    return found, [answer]


def search(fits: Callable[[int], bool | None]) -> tuple[int | None, int | None, dict[int, bool | None]]:
    """(the largest value that fits, the least that was tried and does not, all that were tried): doubled from 1 on,
    then halved between the two until they are a thirty-second apart. None (the script cannot do with that value) is as
    good as not fitting."""
    tried: dict[int, bool | None] = {}

    def judged(value: int) -> bool:
        tried[value] = fits(value)
        return tried[value] is True

    low, high = 0, 1
    while high <= MOST and judged(high):
        low, high = high, high * 2
    if high > MOST:
        return low, None, tried
    while high - low > max(1, low // _NEAR):
        middle = (low + high) // 2
        if judged(middle):
            low = middle
        else:
            high = middle
    return low or None, high, tried


def _traced(request: Request, key: str, value: int, rules: Rules, folder: Path) -> Answer:
    from oomph.cli.trace_run import trace_all
    from oomph.cli.trace_settings import plan_of

    return trace_all(request, plan_of(request, (f"{key}={value}",)), rules, folder)[0]
