"""Environment variables that are in effect, and what else several checks ask of an environment."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from oomph.errors import UsageError
from oomph.evidence.environment.model import Environment, Launch, Told, Variable
from oomph.evidence.model import Quote
from oomph.hardware.names import machine_type
from oomph.hardware.nccl import version
from oomph.hardware.tables import Machine

#: The scopes by how much they count: a process's own environment before what a script, a pod or an image sets.
_ORDER = {"process": 4, "script": 3, "job": 2, "pod": 2, "image": 1}
#: Programs that start the processes of a job. What starts others may start one that does.
PER_GPU = ("torchrun", "accelerate", "deepspeed", "composer")
STARTS = (*PER_GPU, "srun", "mpirun", "mpiexec", "horovodrun")
#: Machine types of Google Cloud without an RDMA network card (gVNIC and TCP, or TCPX and FasTrak over it), from
#: clouds.json's notes on networks; those of Azure without InfiniBand.
_WITHOUT_RDMA = ("a2-", "g2-", "a3-highgpu-", "a3-megagpu-", "a3-edgegpu-", "Standard_NC", "Standard_NV")


def in_effect(environment: Environment, prefix: str = "") -> Iterator[Variable]:
    """Each variable of that prefix once, with every value that it has in the scope that counts."""
    seen: set[tuple[str, str | None]] = set()
    highest: dict[str, int] = {}
    counting = [one for one in environment.variables if not _of_another_command(environment, one)]
    for one in counting:
        highest[one.name] = max(highest.get(one.name, 0), _ORDER.get(one.scope, 0))
    for one in counting:
        if not one.name.startswith(prefix) or _ORDER.get(one.scope, 0) < highest[one.name]:
            continue
        if (one.name, one.value) not in seen:
            seen.add((one.name, one.value))
            yield one


def _of_another_command(environment: Environment, one: Variable) -> bool:
    """Whether it holds for one command that is not what starts the job: `CUDA_LAUNCH_BLOCKING=1 pytest` above
    torchrun."""
    if not one.command:
        return False
    starts = [
        each.quote
        for each in environment.launches
        if each.program in STARTS and each.quote.source == one.quote.source
    ]
    return bool(starts) and one.quote.line not in [quote.line for quote in starts]


def value_of(environment: Environment, name: str) -> str | None:
    """The value that counts; None where the variable is not set, or the text does not say to what."""
    found = [one for one in in_effect(environment, name) if one.name == name]
    return found[-1].value if found else None


def is_on(text: str | None) -> bool:
    """Whether a switch of PyTorch or CUDA is on: a number other than 0, or a word for yes."""
    return (text or "").strip().lower() not in ("", "0", "false", "no", "off", "n", "f")


def machine_of(environment: Environment) -> Machine | None:
    """The cloud machine type that was told, where the table knows it."""
    if environment.machine_type is None:
        return None
    try:
        return machine_type(environment.machine_type.value)
    except UsageError:
        return None


def nodes(environment: Environment) -> int | None:
    """On how many machines the job runs; None: not told."""
    told = [one.nodes for one in environment.launches if one.nodes is not None]
    if told:
        return max(told)
    for name in ("SLURM_JOB_NUM_NODES", "SLURM_NNODES", "GROUP_WORLD_SIZE", "NNODES", "NUM_NODES"):
        text = (value_of(environment, name) or "").strip()
        if text.isascii() and text.isdigit() and len(text) < 7:
            return int(text)
    return None


def gpus(environment: Environment) -> int | None:
    """How many GPUs the job has on a machine: as given to it, as made visible, as the machine has. None: not told."""
    given = [one.gpus for one in environment.launches if one.gpus is not None]
    if given:
        return max(given)
    visible = visible_devices(environment)
    if visible is not None:
        return len(visible)
    if environment.tells("cards"):
        return len(environment.cards)
    machine = machine_of(environment)
    return machine.count if machine is not None and machine.count else None


def visible_devices(environment: Environment) -> tuple[str, ...] | None:
    """The entries of CUDA_VISIBLE_DEVICES; None where it is not set, not told, or set for single ranks."""
    own = environment.all_of("CUDA_VISIBLE_DEVICES")
    if not own or any(one.rank is not None for one in own):
        return None
    text = value_of(environment, "CUDA_VISIBLE_DEVICES")
    if text is None or not text.strip() or text.strip() in ("all", "-1"):
        return None
    return tuple(one.strip() for one in text.split(",") if one.strip())


def has_rdma(environment: Environment) -> tuple[bool | None, str]:
    """Whether the machine has RDMA network devices, and by what that is known; None: not told."""
    if environment.rdma_devices:
        return True, f"the machine has {', '.join(environment.rdma_devices)}"
    if environment.tells("rdma_devices"):
        return False, "the list of its RDMA devices is empty"
    machine = machine_of(environment)
    if machine is not None and machine.name.startswith(_WITHOUT_RDMA):
        return False, f"{machine.name} has no RDMA network card"
    return None, ""


def nccl_version(environment: Environment) -> tuple[tuple[int, ...], Quote] | None:
    """NCCL's version, of the package that PyTorch loads, or as PyTorch says."""
    for name, found in environment.packages.items():
        if name.startswith("nvidia-nccl-cu"):
            for one in found:
                numbers = version(one.value)
                if numbers:
                    return numbers, one.quote
    for build in environment.torch:
        numbers = version(build.nccl)
        if numbers:
            return numbers, build.quote
    return None


def torch_version(environment: Environment) -> tuple[int, int] | None:
    """PyTorch's version as (2, 4), of what was seen installed before what an image or a file asks for."""
    builds = sorted(environment.torch, key=lambda build: build.wanted)
    for build in builds:
        numbers = version(build.version)
        if numbers and len(numbers) > 1:
            return numbers[0], numbers[1]
    return None


def export(name: str, value: str) -> str:
    """The line for a shell that sets a variable."""
    return f"export {name}={shlex.quote(value)}" if value else f"export {name}="


def counted(number: int, what: str) -> str:
    """The number with its word, in the plural where it is not 1."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def quotes(*told: Told[Any] | Variable | Launch | None) -> tuple[Quote, ...]:
    """The quotes of what was told, each once."""
    return tuple(dict.fromkeys(one.quote for one in told if one is not None))
