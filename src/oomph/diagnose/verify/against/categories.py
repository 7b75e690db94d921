"""Category by category: what a snapshot of a failed request holds, beside what the phase is predicted to hold."""

from __future__ import annotations

from oomph.diagnose.verify.against.model import Categories, CategoryRow
from oomph.diagnose.verify.checks.prediction import plan_of
from oomph.errors import OomphError
from oomph.evidence.run.data import RankData, RunData
from oomph.evidence.run.model import OOM, OomRecord, rank_name
from oomph.memory.categories import CATEGORIES
from oomph.predict.model import PhasePeak, Plan

#: A snapshot of more bytes is not read for a table.
_LARGEST = 2 << 30


def categories_of(data: RunData, plan: Plan) -> Categories | str:
    """The table; or why there is none."""
    failed = [(rank, rank.ooms[-1]) for rank in data.ranks.values() if rank.ooms and not rank.ooms[-1].caught]
    if not failed:
        return "no request failed, and only then a snapshot is taken"
    why = "no snapshot was taken of the request that failed"
    for rank, oom in failed:
        peak = plan_of(plan, rank.rank).phases.get(oom.phase)
        if peak is None:
            why = f"the request failed in {oom.phase.value}, which is not predicted"
            continue
        table = _table(data, rank, oom, peak)
        if isinstance(table, Categories):
            return table
        why = table
    return why


def _table(data: RunData, rank: RankData, oom: OomRecord, peak: PhasePeak) -> Categories | str:
    name = snapshot_of(data, rank, oom)
    if name is None:
        said = "; ".join(oom.missing)
        return f"rank {rank.rank} left no snapshot{f' ({said})' if said else ''}"
    try:
        recorded = recorded_shares(data, name)
    except (OomphError, OSError) as error:
        return f"{name} cannot be read: {error}"
    if not recorded:
        return f"{name} tells no categories"
    predicted: dict[str, int] = {}
    for term in peak.terms:
        predicted[str(term.category)] = predicted.get(str(term.category), 0) + term.bytes
    rows = tuple(
        CategoryRow(
            category,
            predicted.get(category, 0),
            recorded.get(category, (0, ""))[0],
            recorded.get(category, (0, ""))[1],
        )
        for category in map(str, CATEGORIES)
        if predicted.get(category) or recorded.get(category)
    )
    text = (
        f"Predicted at the peak of {peak.phase.value}, recorded on rank {rank.rank} when a request failed there, which "
        "may be before that peak."
    )
    return Categories(rank.rank, oom.phase, rows, text)


def snapshot_of(data: RunData, rank: RankData, oom: OomRecord) -> str | None:
    """The snapshot's name below the run."""
    folder = f"{OOM}/{rank_name(rank.rank)}/"
    own = [folder + name for name in oom.files if name.endswith(".pickle") and "/" not in name]
    there = [name for name in own if data.files.size(name)]
    there += [name for name in data.snapshots if name.startswith(folder)]
    return next((name for name in there if (data.files.size(name) or 0) <= _LARGEST), None)


def recorded_shares(data: RunData, name: str) -> dict[str, tuple[int, str]]:
    """Bytes and certainty of each category when the request failed."""
    # Only who reads a snapshot needs numpy.
    from oomph.diagnose.snapshot.build import analyse, report_of
    from oomph.evidence.snapshot import from_bytes
    from oomph.evidence.snapshot.unpickle import without_collector

    with data.files.open(name) as stream:
        content = stream.read(_LARGEST)
    with without_collector():
        snapshot = from_bytes(content, name)
        report = report_of(snapshot, analyses=analyse(snapshot))
    if not report.devices:
        return {}
    shares = report.devices[report.shown].shares
    return {str(share.category): (share.bytes, str(share.certainty)) for share in shares}
