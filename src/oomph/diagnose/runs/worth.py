"""What the plans of two runs' jobs say the change between them is worth."""

from __future__ import annotations

from oomph.diagnose.runs.model import Planned
from oomph.diagnose.verify.against.recorded_job import recorded_job
from oomph.errors import OomphError
from oomph.evidence.run.data import RunData
from oomph.job.check import check
from oomph.job.defaults import with_defaults
from oomph.predict.model import RankPlan
from oomph.predict.plan import plan


def planned(run: RunData, other: RunData) -> Planned:
    """The highest peaks that both jobs are planned to have, as their fingerprints and records describe them; or a
    sentence that says why they cannot be planned. Raises nothing of oomph's own."""
    try:
        before, after = _peaks(other), _peaks(run)
    except OomphError as error:
        return Planned(why=f"The jobs of both runs cannot be planned: {_first(error)}")
    if isinstance(before, str) or isinstance(after, str):
        said = before if isinstance(before, str) else after
        return Planned(why=f"The jobs of both runs cannot be planned: {said}")
    names = [phase for phase in before.phases if phase in after.phases]
    return Planned(
        before_bytes=before.peak.allocated_bytes,
        after_bytes=after.peak.allocated_bytes,
        phases=tuple(
            (phase.value, before.phases[phase].allocated_bytes, after.phases[phase].allocated_bytes)
            for phase in names
        ),
    )


def _first(error: OomphError) -> str:
    """What is wrong, without the advice for another command."""
    return str(error).partition(": name the job")[0] + "."


def _peaks(data: RunData) -> RankPlan | str:
    """The kind of rank that needs the most, or what is not modelled."""
    recorded = recorded_job(data)
    if recorded.unsupported:
        return recorded.unsupported[0]
    job, _ = with_defaults(recorded.job, set(recorded.said))
    check(job)
    answer = plan(job, replay=False)
    if not answer.ranks:
        return answer.unsupported[0] if answer.unsupported else "nothing is predicted"
    return answer.worst
