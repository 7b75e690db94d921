"""Versions of libraries: what is known to have changed between two of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, plain

_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True)
class Known:
    """From version `since` of `library` on, `effect`. direction: of memory when the version goes up across it. `needs`:
    a fact without which it does not apply (None of that name known: it may). source: where it is written."""

    library: str
    since: str
    effect: str
    source: str
    direction: int = 0
    phases: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    needs: str = ""
    weight: float = 6.0


class VersionKind(Kind):
    """Versions of some libraries, with a table of what is known; `default` is said of versions about which "
    "nothing is."""

    libraries: tuple[str, ...] = ()
    known: tuple[Known, ...] = ()
    default = (
        "nothing is known here about memory between these versions, which is no proof that there is nothing"
    )
    default_weight = 2.0
    default_prior = Suspicion.POSSIBLE
    default_parts: tuple[str, ...] = ()

    def wants(self, key: str) -> bool:
        """`versions.LIBRARY` of its libraries."""
        return plain(key).removeprefix("versions.") in self.libraries and plain(key).startswith("versions.")

    def judge(self, change: Change, situation: Situation) -> Judged:
        """All that is known of what lies between the two versions."""
        library = plain(change.key).removeprefix("versions.")
        before, after = numbers(change.before), numbers(change.after)
        if not before or not after:
            what = "was not there before" if not before else "is not there any more"
            return Judged(f"{library} {what}", Suspicion.POSSIBLE, weight=self.default_weight)
        if before == after:
            return Judged(f"the same version of {library} in another build", Suspicion.UNLIKELY, weight=1.0)
        low, high = sorted((before, after))
        crossed = [
            each
            for each in self.known
            if each.library == library and low < numbers(each.since) <= high and _applies(each, situation)
        ]
        if not crossed:
            major = before[:2] != after[:2]
            prior = self.default_prior if major else min(self.default_prior, Suspicion.POSSIBLE)
            return Judged(self.default, prior, parts=self.default_parts, weight=self.default_weight + major)
        way = 1 if after > before else -1
        directions = {each.direction for each in crossed if each.direction}
        effects = "; ".join(f"since {each.since}, {each.effect}" for each in crossed)
        prefix = "" if way > 0 else "it goes back before this: "
        return Judged(
            prefix + effects,
            Suspicion.LIKELY,
            direction=way * directions.pop() if len(directions) == 1 else 0,
            phases=tuple(dict.fromkeys(phase for each in crossed for phase in each.phases)),
            parts=tuple(dict.fromkeys(part for each in crossed for part in each.parts)),
            sources=tuple(dict.fromkeys(each.source for each in crossed)),
            weight=max(each.weight for each in crossed),
        )


def numbers(value: object) -> tuple[int, ...]:
    """The release of a version: "2.6.0+cu124" -> (2, 6, 0); () for none."""
    if value is None:
        return ()
    release = re.match(r"\D*(\d+(?:\.\d+)*)", str(value))
    return tuple(int(each[:9]) for each in _NUMBERS.findall(release[1])) if release else ()


def _applies(known: Known, situation: Situation) -> bool:
    """Whether both runs use what the change is about, as far as that is known."""
    if not known.needs:
        return True
    family = known.needs.partition(".")[0]
    values = situation.after.values
    return known.needs in values or not any(key.startswith(f"{family}.") for key in values)
