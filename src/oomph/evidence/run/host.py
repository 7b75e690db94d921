"""Main memory of a rank's host at the end of the rank, against its limit."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.evidence.run.data import RankData, RunData
from oomph.evidence.run.files import host_file
from oomph.probe.model import Host
from oomph.units import format_bytes

#: A cgroup without a limit is given the largest number of pages.
_NO_LIMIT_BYTES = 1 << 60
#: A rank may live so long after its last sign of life: a reading within it is taken for one before its end.
_REACH_SECONDS = 1.0


@dataclass(frozen=True)
class HostUse:
    """What was in use of what there was at `time`, and a sentence that says whose figures these are."""

    used_bytes: int
    limit_bytes: int
    time: float
    says: str


def host_use(run: RunData, rank: RankData) -> HostUse | None:
    """The last figures of the rank's host; None where nothing was recorded.

    Whatever is nearer to its limit is told: the job under its cgroup's limit, or the whole host.
    """
    host = rank.header.host if rank.header is not None else ""
    found: list[HostUse] = []
    until = rank.last_time if rank.last_time is not None else float("inf")
    if rank.now is not None:
        until = max(until, rank.now.time)
    # What was freed by the end of the process itself says nothing of what it died of.
    samples = [
        one
        for one in run.gpus.get(host_file(host), ())
        if one.host is not None and one.time <= until + _REACH_SECONDS
    ]
    if samples and samples[-1].host is not None:
        found += _uses(samples[-1].host, samples[-1].time, samples[-1].host.rss_bytes)
    else:
        last = [
            (record.time, record.host)
            for one in run.ranks.values()
            if one.header is not None and one.header.host == host
            for record in one.phases[-1:]
            if record.host is not None
        ]
        if last:
            time, latest = max(last, key=lambda item: item[0])
            together = sum(one.rss_bytes or 0 for _, one in last)
            found += _uses(latest, time, together)
    return max(found, key=lambda one: one.used_bytes / one.limit_bytes, default=None)


def _uses(host: Host, time: float, job_bytes: int | None) -> list[HostUse]:
    found = []
    limit = host.cgroup_limit_bytes
    if limit and limit < _NO_LIMIT_BYTES and job_bytes:
        says = (
            f"the job's processes held {format_bytes(job_bytes)} of the {format_bytes(limit)} "
            "that their cgroup may have"
        )
        found.append(HostUse(job_bytes, limit, time, says))
    if host.total_bytes and host.available_bytes is not None:
        used = max(0, host.total_bytes - host.available_bytes)
        says = f"{format_bytes(used)} of the host's {format_bytes(host.total_bytes)} were in use"
        if job_bytes:
            says += f", {format_bytes(job_bytes)} of it by the job's processes"
        found.append(HostUse(used, host.total_bytes, time, says))
    return found
