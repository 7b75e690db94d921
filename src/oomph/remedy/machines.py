"""One job on every machine type of some clouds: where it fits, and how long a step takes there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oomph.errors import UsageError
from oomph.hardware.names import gpu as gpu_named
from oomph.hardware.outside import available_bytes
from oomph.hardware.tables import Machine
from oomph.job.model import Job
from oomph.remedy.changes.machine import CLOUDS, machines
from oomph.remedy.costs import Cost, cost
from oomph.remedy.room import Predictor, quickly, upper


@dataclass(frozen=True)
class MachineFit:
    """One machine type. `fits`: True when the upper end does, False when the prediction itself does not, None in
    between. `job`: as it runs there (data ranks are the machine's GPUs; accumulation keeps the samples of a step where
    it can). `refused`: why it was not predicted ("" where it was)."""

    machine: Machine
    job: Job | None
    peak_bytes: int | None
    capacity_bytes: int | None
    fits: bool | None
    cost: Cost | None
    same_batch: bool = True
    refused: str = ""


def compare_machines(
    job: Job,
    clouds: Sequence[str] = tuple(CLOUDS),
    headroom: float = 0.05,
    *,
    predictor: Predictor = quickly,
) -> tuple[MachineFit, ...]:
    """The job on one machine of each type: those where it fits first, by GPUs and then by time per token.

    Raises UsageError for a cloud that is not one of gcp, aws, azure and lambda.
    """
    unknown = [each for each in clouds if each not in CLOUDS]
    if unknown:
        raise UsageError(f"--clouds takes {', '.join(CLOUDS)}, not {', '.join(unknown)}.")
    known: dict[Job, int | str] = {}
    found = [_one(job, each.machine, headroom, predictor, known) for each in machines(tuple(clouds))]
    return tuple(sorted(found, key=_order))


def _one(
    job: Job, machine: Machine, headroom: float, predictor: Predictor, known: dict[Job, int | str]
) -> MachineFit:
    from msgspec.structs import replace

    from oomph.remedy.changes.machine import OtherMachine

    change = OtherMachine(machine)
    why = change.applies(job)
    if why is not None:
        return MachineFit(machine, None, None, None, None, None, refused=why)
    moved = change.apply(job)
    capacity = int(available_bytes(gpu_named(machine.gpu)).low_bytes * (1 - headroom))
    # Machines with the same GPU and number of them need the same.
    alike = replace(moved, hardware=replace(moved.hardware, machine="", host_bytes=None))
    if alike not in known:
        try:
            known[alike] = predictor(moved)
        except UsageError as error:
            known[alike] = str(error)
    peak = known[alike]
    if isinstance(peak, str):
        return MachineFit(machine, moved, None, capacity, None, None, refused=peak)
    fits = True if upper(moved, peak) <= capacity else (False if peak > capacity else None)
    same = _samples(moved) == _samples(job)
    return MachineFit(machine, moved, peak, capacity, fits, cost(moved), same)


def _samples(job: Job) -> int:
    return job.batch.micro * job.batch.accumulation * job.parallel.data


def _order(each: MachineFit) -> tuple[int, int, float, str]:
    rank = {True: 0, None: 1, False: 2}[each.fits] if not each.refused else 3
    return rank, each.machine.count, each.cost.per_token if each.cost else 0.0, each.machine.name
