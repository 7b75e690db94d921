"""Shared memory (/dev/shm) is too small for data loaders or for NCCL."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.gpu_models import has_p2p
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.diagnose.machine.nccl_values import number
from oomph.diagnose.machine.settings import STARTS, gpus, value_of
from oomph.diagnose.model import Certainty
from oomph.evidence.environment.model import Environment, Launch
from oomph.evidence.model import Quote
from oomph.units import GIB, MIB, format_bytes

#: What Docker and Kubernetes give a container that asks for nothing.
_DEFAULT = 64 * MIB
#: NVIDIA's guide for NCCL in containers asks for --shm-size=1g.
_ENOUGH = GIB
#: One receiving connection of NCCL through host memory: buffers of 524,288 + 4,915,200 + 4,194,304 bytes and a page.
#: NCCL prints this number: `creating shared memory segment /dev/shm/nccl-... (size 9637888)`.
_SEGMENT = 9_637_888
#: A ring over PCIe has two channels at least.
_CHANNELS = 2


@dataclass(frozen=True)
class _Shm:
    size_bytes: int
    how: str
    program: str
    evidence: tuple[Quote, ...]


class ShmTooSmall(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV502"
    cause = "shm_too_small"
    name = "shm-too-small"
    means = (
        "Shared memory (/dev/shm) is a file system in RAM with its own size. Workers of a DataLoader hand batches over "
        "in it, and NCCL's ranks on one machine talk through it where GPUs cannot copy directly. A container gets "
        "64 MiB unless it asks for more: then a worker dies of a bus error, or NCCL cannot start."
    )
    decisive_evidence = "Its size (`df`), or a container or pod that asks for none."
    first_action = (
        "Give the container a larger one: --shm-size=16g or --ipc=host; in Kubernetes an emptyDir in memory."
    )
    verify = "`df -h /dev/shm` inside the container shows the new size."
    wrong_advice = (
        "A smaller batch for the GPU, or more RAM for the container alone: the size is set apart from both."
    )

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        shm = _found(environment)
        if isinstance(shm, str):
            return Clear(shm)
        if shm is None:
            if environment.container is not None:
                return CouldNotTell("the size of /dev/shm in the container: `df -h /dev/shm` tells it")
            return NotHere()
        free = environment.host.shm_free_bytes
        if shm.size_bytes >= _ENOUGH:
            if free is not None and free.value < _DEFAULT:
                return (_full(shm, free.value, free.quote),)
            return Clear(f"Shared memory (/dev/shm) has {format_bytes(shm.size_bytes)} ({shm.how})")
        return (_small(environment, shm),)


def _found(environment: Environment) -> _Shm | str | None:
    """The size, a reason for which it is no limit, or None where nothing tells it."""
    told = environment.host.shm_bytes
    if told is not None:
        return _Shm(told.value, "as the machine says", "", (told.quote,))
    containers = [one for one in environment.launches if _in_container(environment, one)]
    sizes: list[_Shm] = []
    shared = ""
    for one in containers:
        if one.host_ipc:
            shared = f"{one.program} shares the host's /dev/shm"
        elif one.shm_bytes is None and one.host_ipc is None:
            continue
        elif one.shm_bytes is None:
            sizes.append(
                _Shm(
                    _DEFAULT, f"the default of {one.program}, which asks for none", one.program, (one.quote,)
                )
            )
        elif one.shm_bytes > 0:
            sizes.append(_Shm(one.shm_bytes, f"as {one.program} asks for", one.program, (one.quote,)))
        else:
            shared = f"{one.program} sets no limit on /dev/shm"
    return min(sizes, key=lambda one: one.size_bytes, default=None) or shared or None


def _in_container(environment: Environment, one: Launch) -> bool:
    """Whether it is a container that has GPUs, or starts a job: others use no shared memory to speak of."""
    if one.program == "Kubernetes":
        return bool(one.gpus)
    if not one.program.endswith((" run", " create", " compose")):
        return False
    text = one.quote.text.lower()
    if text.split()[-1:] == ["nvidia-smi"]:  # a look at the cards, and no job
        return False
    images = " ".join(image.value for image in environment.images).lower()
    return (
        bool(one.gpus)
        or any(word in text for word in ("gpu", "nvidia"))
        or any(word in images for word in ("torch", "cuda", "nvcr.io"))
        or any(
            each.program in STARTS and each.quote.source == one.quote.source for each in environment.launches
        )
    )


def _small(environment: Environment, shm: _Shm) -> Problem:
    count = gpus(environment)
    need = _SEGMENT * _CHANNELS * (count or 0)
    through_host = (count or 0) > 1 and _through_host(environment)
    fails = through_host and need > shm.size_bytes
    does = "Workers of a DataLoader that hand over batches larger than that die of a bus error."
    numbers = {"shm_bytes": shm.size_bytes}
    if through_host:
        numbers["nccl_bytes"] = need
        does = (
            f"NCCL cannot copy directly here and needs {format_bytes(_SEGMENT)} for each rank and channel, "
            f"{format_bytes(need)} for {count} ranks with {_CHANNELS} channels"
            + (": it fails to start (`No space left on device`). " if fails else ". ")
            + does
        )
    fix, paste = "Give the container a larger one, or the host's.", "--shm-size=16g"
    if shm.program == "Kubernetes":
        fix = "Mount an emptyDir with medium: Memory at /dev/shm."
        paste = (
            "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}]\n"
            "volumeMounts: [{name: shm, mountPath: /dev/shm}]"
        )
    elif shm.program == "docker compose":
        paste = "shm_size: 16gb"
    return Problem(
        says=f"Shared memory (/dev/shm) has {format_bytes(shm.size_bytes)} ({shm.how}).",
        does=does,
        fix=fix,
        paste=paste,
        subject="shared memory",
        severity=Severity.ERROR if fails else Severity.WARNING if _trains(environment) else Severity.NOTE,
        certainty=Certainty.LIKELY if fails else Certainty.CERTAIN,
        numbers=numbers,
        evidence=shm.evidence,
    )


def _trains(environment: Environment) -> bool:
    """Whether anything says that training runs there, or may: a launcher, several GPUs, PyTorch. A pod with one GPU can
    be anything."""
    images = " ".join(image.value for image in environment.images).lower()
    return (
        environment.live
        or environment.host.shm_bytes is not None
        or (gpus(environment) or 2) > 1
        or bool(environment.torch)
        or "torch" in images
        or any(one.program in STARTS for one in environment.launches)
    )


def _through_host(environment: Environment) -> bool:
    """Whether ranks of a machine talk through host memory: P2P forbidden, or cards without it."""
    if number(value_of(environment, "NCCL_P2P_DISABLE") or "").value == 1:
        return True
    models = [has_p2p(card.name) for card in environment.cards if card.name]
    return bool(models) and all(one is False for one in models)


def _full(shm: _Shm, free: int, quote: Quote) -> Problem:
    return Problem(
        says=f"Shared memory (/dev/shm) has {format_bytes(shm.size_bytes)}, and {format_bytes(free)} of it are free.",
        does="Files of jobs that were killed stay there (nccl-*, torch_*), take RAM, and leave no room for this one.",
        fix="Look for files that no process has open, and remove them.",
        paste="ls -lh /dev/shm; lsof +D /dev/shm",
        subject="shared memory",
        severity=Severity.WARNING,
        numbers={"shm_bytes": shm.size_bytes, "free_bytes": free},
        evidence=(*shm.evidence, quote),
    )
