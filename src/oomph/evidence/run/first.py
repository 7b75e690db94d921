"""Which rank failed first, and whom it took along."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from oomph.evidence.run.data import FirstFailure, Outcome, RankData

#: Clocks of several hosts agree to within this many seconds, where they are kept at all.
_HOSTS_AGREE_SECONDS = 5.0
#: What an exception says that comes of another rank's end, not of this one's own fault.
_CONSEQUENCE = re.compile(
    r"nccl|gloo|ProcessGroup|DistBackendError|DistNetworkError|DistStoreError|Connection (?:reset|closed|refused)|"
    r"Broken pipe|Socket|timed? ?out|remote process|collective|watchdog|SIGTERM|SignalException|Terminated",
    re.IGNORECASE,
)


def first_failure(ranks: Mapping[int, RankData]) -> FirstFailure | None:
    """The first of those that failed by what they recorded; None where none did.

    An exception that speaks of a connection or a collective, and an end without a last record (a launcher stops the
    others), are taken for consequences as soon as another rank has a cause of its own.
    """
    failed = [one for one in ranks.values() if one.outcome.failed]
    if not failed:
        return None
    own = [one for one in failed if one.outcome is Outcome.OOM]
    kind = "a failed request for memory"
    if not own:
        own = [one for one in failed if one.outcome is Outcome.EXCEPTION and not _is_consequence(one)]
        kind = "an exception of its own"
    if not own:
        own = [one for one in failed if one.outcome is Outcome.KILLED]
        kind = "an end without a last record"
    if not own:
        own, kind = failed, "a failure that looks like another's consequence"
    if own[0].outcome is Outcome.KILLED:
        # When a process is killed is not when it last recorded something.
        first, certain, how = tuple(one.rank for one in own), False, ""
    else:
        first, certain, how = _earliest(own)
    names = frozenset(first)
    others = [one for one in failed if one.rank not in names]
    victims = tuple(one.rank for one in others if one not in own)
    certain = certain and own[0].outcome is Outcome.OOM
    return FirstFailure(first, certain, _why(first, kind, len(own), how), victims)


def _why(first: Sequence[int], kind: str, own: int, how: str) -> str:
    more = f" and {len(first) - 8} more" if len(first) > 8 else ""
    who = (
        f"rank {first[0]}" if len(first) == 1 else f"ranks {', '.join(str(rank) for rank in first[:8])}{more}"
    )
    verb = "has" if len(first) == 1 else "have"
    if own == 1:
        return f"{who} alone {verb} {kind}"
    if not how:
        return f"{who} {verb} {kind}; which came first is not recorded"
    return f"{who} {verb} {kind}, {how} of {own} such ranks"


def _is_consequence(one: RankData) -> bool:
    return one.end is not None and _CONSEQUENCE.search(one.end.error) is not None


def _moment(one: RankData) -> tuple[str, float, float]:
    """(host, wall clock, steady clock) of a rank's failure."""
    record = one.oom or one.end
    host = one.header.host if one.header is not None else ""
    if record is not None:
        return host, record.time, record.clock
    return host, one.last_time or 0.0, one.last_clock or 0.0


def _earliest(own: Sequence[RankData]) -> tuple[tuple[int, ...], bool, str]:
    """The rank or ranks that came first, whether that is sure, and how it is known."""
    if len(own) == 1:
        return (own[0].rank,), True, "alone"
    moments = {one.rank: _moment(one) for one in own}
    hosts = {host for host, _, _ in moments.values()}
    if len(hosts) == 1:
        # One boot's steady clock is the same for all processes of a host.
        ordered = sorted(moments, key=lambda rank: moments[rank][2])
        return (ordered[0],), True, "the earliest by the host's steady clock"
    ordered = sorted(moments, key=lambda rank: moments[rank][1])
    start = moments[ordered[0]][1]
    near = tuple(rank for rank in ordered if moments[rank][1] - start <= _HOSTS_AGREE_SECONDS)
    if len({moments[rank][0] for rank in near}) == 1:
        near = (min(near, key=lambda rank: moments[rank][2]),)
    if len(near) == 1:
        return near, True, "the earliest by the clocks of their hosts"
    return (
        tuple(sorted(near)),
        False,
        "too near to each other, by the clocks of several hosts, to order them,",
    )
