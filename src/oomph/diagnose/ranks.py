"""Who failed first, how that is known, and who only died of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oomph.diagnose.lookup import Exits
from oomph.diagnose.model import Incident, RankVerdict
from oomph.diagnose.others import WATCHDOG, others
from oomph.evidence.model import Evidence
from oomph.units import GIB, format_bytes

_LOST_PEER = re.compile(
    r"Connection (?:closed|reset) by (?:remote )?peer|connectFullMesh|socketProgress|"
    r"Broken pipe|NCCL communicator was aborted|remote process exited|DistBackendError|store.*Connection",
    re.IGNORECASE,
)


def rank_verdict(evidence: Evidence, incidents: Sequence[Incident], chosen: Incident | None) -> RankVerdict:
    """The ranks' part of the diagnosis."""
    own = [one for one in incidents if one.status == "fatal"]
    found = (one.rank if one.rank is not None else _by_device(evidence, one) for one in own)
    failed = dict.fromkeys(rank for rank in found if rank is not None)
    if chosen is None:
        return _not_of_memory(evidence)
    first, how = _first(evidence, own, chosen)
    if first is not None and not failed and len(own) == 1:
        failed[first] = None
    consequences = _consequences(evidence, set(failed))
    return RankVerdict(first, how, tuple(failed), consequences, tuple(_notes(own)))


def _not_of_memory(evidence: Evidence) -> RankVerdict:
    """Without a memory failure: the rank that the launcher, or the first traceback, names."""
    for found in evidence.exits:
        if found.root and found.rank is not None and found.code not in (0, None):
            return RankVerdict(
                found.rank, "no memory failure; the launcher's table names it as the first to fail", ()
            )
    for one in others(evidence):
        if one.rank is not None:
            return RankVerdict(one.rank, "no memory failure; the first error in the input is its own", ())
    return RankVerdict(None, "no memory failure", ())


def _first(evidence: Evidence, own: Sequence[Incident], chosen: Incident) -> tuple[int | None, str]:
    root = next((found for found in evidence.exits if found.root and found.rank is not None), None)
    rank = chosen.rank
    if rank is None:
        rank = _by_device(evidence, chosen)
        if rank is not None:
            return rank, f"GPU {chosen.failure.device} is local rank {rank} in the launcher's table"
        if root is not None and len(own) <= 1:
            return root.rank, "the launcher's table names it as the first failure, and the input has one"
        blamed = {
            found.rank
            for found in evidence.exits
            if found.rank is not None and found.code not in (0, None, -15)
        }
        only = blamed.pop() if len(blamed) == 1 else None
        if only is not None and len(own) <= 1:
            return only, "the launcher says that this rank failed, and no other"
        return None, "the log does not say which rank wrote the message"
    if len(own) <= 1:
        return rank, "it is the only rank with a memory failure of its own"
    how = "its message is the first of " + str(len(own))
    if root is not None and root.rank is not None and root.rank != rank:
        how += f"; the launcher's table names rank {root.rank}, by the time of its error file"
    return rank, how


def _by_device(evidence: Evidence, one: Incident) -> int | None:
    """The rank whose local rank is the failing device, when the launcher's table lists such a failure."""
    device = one.failure.device
    return None if device is None else evidence.derived(Exits).rank_by_device.get(device)


def _consequences(evidence: Evidence, failed: set[int]) -> dict[int, str]:
    out: dict[int, str] = {}
    for traceback in evidence.tracebacks:
        rank = traceback.rank
        if rank is not None and rank not in failed and _LOST_PEER.search(traceback.message):
            out.setdefault(rank, "lost its connection to a rank that had died")
    for document in evidence.documents:
        for line in document.lines:
            if line.rank is None or line.rank in failed or line.rank in out:
                continue
            if "Watchdog" in line.text and WATCHDOG.search(line.text):
                out[line.rank] = "waited for a collective until its watchdog gave up"
            elif "onnection" in line.text and _LOST_PEER.search(line.text):
                out[line.rank] = "lost its connection to a rank that had died"
    for found in evidence.exits:
        if found.rank is not None and found.rank not in failed and found.code == -15:
            out.setdefault(found.rank, "was stopped by the launcher (SIGTERM)")
    return dict(sorted(out.items()))


def _notes(own: Sequence[Incident]) -> list[str]:
    """One rank with more than the rest, and ranks that pile up on GPU 0."""
    notes = []
    sizes = {
        one.rank: one.ledger.allocated_bytes
        for one in own
        if one.rank is not None and one.ledger.allocated_bytes is not None
    }
    if len(sizes) >= 3:
        values = sorted(sizes.values())
        middle = values[len(values) // 2]
        for rank, size in sizes.items():
            if size - middle >= max(GIB, middle // 10):
                notes.append(f"rank {rank} held {format_bytes(size)}, the middle rank {format_bytes(middle)}")
    on_zero = {one.rank for one in own if one.failure.device == 0 and one.rank is not None}
    if len(on_zero) >= 2:
        ranks = ", ".join(str(rank) for rank in sorted(on_zero))
        notes.append(f"ranks {ranks} all failed on GPU 0")
    return notes
