"""Variables of a shell script behind an `if` or a `case`: which branch ran is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Variables = dict[str, str | None]


@dataclass
class Branches:
    """One `if` or `case`, open. `before` are the variables when it began, `ends` those at the end of each branch.

    The branches of a `case` cannot be told apart here: `esac` reads them as one that may not run.
    """

    before: Variables
    esac: bool = False
    ends: list[Variables] = field(default_factory=list)
    complete: bool = False

    def next(self, variables: Mapping[str, str | None], *, last: bool) -> Variables:
        """A branch ends and another begins, `last` where it is the `else`: as the variables were before."""
        self.ends.append(dict(variables))
        self.complete = last
        return dict(self.before)

    def joined(self, variables: Mapping[str, str | None]) -> Variables:
        """Behind `fi` or `esac`: what all branches agree on; None for the rest. A variable that was not set before and
        gets one value keeps it: the default that the script's author expects."""
        ends = [*self.ends, dict(variables)]
        out: Variables = {}
        for name in {name: None for end in ends for name in end}:
            held = [end[name] for end in ends if name in end]
            if not self.complete and name in self.before:
                held.append(self.before[name])
            out[name] = held[0] if all(value == held[0] for value in held) else None
        return out

    def may_differ(self, name: str, variables: Mapping[str, str | None]) -> bool:
        """Whether a variable depends on the branch: set in one to what it is not in another, or not set there."""
        held = [end.get(name, "") for end in (*self.ends, dict(variables))]
        if not self.complete:
            held.append(self.before.get(name, ""))
        return any([value != held[0] for value in held])
