"""One job on every machine type of some clouds: where it fits, and how long a step takes there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from oomph.errors import UsageError
from oomph.hardware.names import gpu as gpu_named
from oomph.hardware.outside import available_bytes
from oomph.hardware.tables import Machine
from oomph.job.model import DType, Job
from oomph.predict.compose.masks import open_job
from oomph.predict.outside import outside_of
from oomph.remedy.changes.other_machine import CLOUDS, OtherMachine, machines
from oomph.remedy.costs import Cost, cost
from oomph.remedy.room import Predictor, quickly, upper

#: bf16 arithmetic: CUDA programming guide, __nv_bfloat16, compute capability 8.0.
_BF16 = (8, 0)


@dataclass(frozen=True)
class MachineFit:
    """One machine type. `fits`: True when the upper end does, False when the prediction itself does not, None in
    between. `capacity_bytes`: what PyTorch can have there, when NCCL and libraries take their most. `job`: as it runs
    there (data ranks are the machine's GPUs; accumulation keeps the samples of a step where it can; `in_fp16`: with
    fp16 in place of bf16). `refused`: why it was not predicted ("" where it was)."""

    machine: Machine
    job: Job | None
    peak_bytes: int | None
    capacity_bytes: int | None
    fits: bool | None
    cost: Cost | None
    same_batch: bool = True
    refused: str = ""
    in_fp16: bool = False


def compare_machines(
    job: Job,
    clouds: Sequence[str] = tuple(CLOUDS),
    headroom: float = 0.05,
    *,
    predictor: Predictor = quickly,
    gpu: str = "",
    any_half: bool = False,
) -> tuple[MachineFit, ...]:
    """The job on one machine of each type: those where it fits first, by GPUs and then by time per token. `gpu`: only
    types with this one (its short name). `any_half`: bf16 is nobody's choice, so a card that has none runs fp16.

    Raises UsageError for a cloud that is not one of gcp, aws, azure and lambda, or has no machine with that GPU.
    """
    unknown = [each for each in clouds if each not in CLOUDS]
    if unknown:
        raise UsageError(f"--clouds takes {', '.join(CLOUDS)}, not {', '.join(unknown)}.")
    known: dict[Job, int | str] = {}
    types = [each.machine for each in machines(tuple(clouds)) if gpu in ("", each.machine.gpu)]
    if gpu and not types:
        raise UsageError(f"No machine type of {', '.join(clouds)} with a whole {gpu} is known.")
    found = [_one(job, each, headroom, predictor, known, any_half) for each in types]
    return tuple(sorted(found, key=_order))


def _one(
    job: Job,
    machine: Machine,
    headroom: float,
    predictor: Predictor,
    known: dict[Job, int | str],
    any_half: bool,
) -> MachineFit:
    change = OtherMachine(machine)
    why = change.applies(job)
    if why is not None:
        return MachineFit(machine, None, None, None, None, None, refused=why)
    moved = change.apply(job)
    card = gpu_named(machine.gpu)
    in_fp16 = any_half and tuple(card.capability) < _BF16
    if in_fp16:
        moved = with_fp16(moved)
    outside = outside_of(moved)
    rest = max(0, outside.high_bytes - outside.context_high_bytes)
    capacity = max(0, int((available_bytes(card).low_bytes - rest) * (1 - headroom)))
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
    if fits is False and open_job(moved) is not None and _without_mask(moved, predictor) <= capacity:
        fits = None
    same = _samples(moved) == _samples(job)
    return MachineFit(machine, moved, peak, capacity, fits, cost(moved), same, in_fp16=in_fp16)


def _without_mask(job: Job, predictor: Predictor) -> int:
    """What a job needs whose batches may be padded, where they are not."""
    return predictor(replace(job, batch=replace(job.batch, padding="off")))


def with_fp16(job: Job) -> Job:
    """The job with fp16 in place of bf16, which takes as many bytes."""
    half: DType = "fp16"
    its, lora, state = job.precision, job.method.lora, job.optimizer.state
    precision = replace(
        its,
        weights=half if its.weights == "bf16" else its.weights,
        compute=half if its.compute == "bf16" else its.compute,
        grads=half if its.grads == "bf16" else its.grads,
        reduce=half if its.reduce == "bf16" else its.reduce,
    )
    if lora is not None and lora.dtype == "bf16":
        job = replace(job, method=replace(job.method, lora=replace(lora, dtype=half)))
    optimizer = replace(job.optimizer, state=half if state == "bf16" else state)
    return replace(job, precision=precision, optimizer=optimizer)


def _samples(job: Job) -> int:
    return job.batch.micro * job.batch.accumulation * job.parallel.data


def _order(each: MachineFit) -> tuple[int, int, float, str]:
    rank = {True: 0, None: 1, False: 2}[each.fits] if not each.refused else 3
    return rank, each.machine.count, each.cost.per_token if each.cost else 0.0, each.machine.name
