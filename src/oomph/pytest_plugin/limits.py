"""What the mark asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oomph.phases import Phase
from oomph.units import size_given

_COUNTERS = ("allocated", "reserved")
_KNOWN = ("peak", "phase", "counter", "gpu")


@dataclass(frozen=True)
class Limit:
    """Not more than `size_bytes` of `counter` in `phase` (None: in any)."""

    size_bytes: int
    phase: Phase | None = None
    counter: str = "allocated"


def limit_of(args: Sequence[object], keywords: Mapping[str, object]) -> Limit:
    """The limit of a mark. Raises ValueError, in one sentence, for a mark that makes no sense."""
    given = dict(zip(("peak", "phase"), args, strict=False)) | dict(keywords)
    unknown = sorted(set(given) - set(_KNOWN))
    if len(args) > 2 or unknown:
        raise ValueError(
            f"the mark oomph takes {', '.join(_KNOWN)}{f', not {unknown[0]}' if unknown else ''}"
        )
    peak = given.get("peak")
    size = size_given(peak) if isinstance(peak, str) else peak
    if isinstance(size, bool) or not isinstance(size, int) or size <= 0:
        raise ValueError(f'the mark oomph needs a size, as in peak="12 GiB"; {str(peak)[:60]!r} is none')
    counter = given.get("counter", "allocated")
    if counter not in _COUNTERS:
        raise ValueError(f"the mark oomph: counter is {' or '.join(_COUNTERS)}, not {str(counter)[:60]!r}")
    word = given.get("phase")
    if word is None:
        return Limit(size, None, str(counter))
    try:
        return Limit(size, Phase(str(word).lower()), str(counter))
    except ValueError:
        known = ", ".join(phase.value for phase in Phase if phase is not Phase.UNKNOWN)
        raise ValueError(f"the mark oomph: there is no phase {str(word)[:60]!r}; known are {known}") from None
