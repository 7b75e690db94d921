"""Which stepper a job's optimizer is."""

from __future__ import annotations

from dataclasses import replace

from oomph.errors import UsageError
from oomph.hardware.names import gpu as gpu_named
from oomph.job.model import ITEM_BYTES, Job
from oomph.predict.optimizers.adam import Adam, ForeachAdam, FusedAdam, LoopAdam
from oomph.predict.optimizers.base import Stepper
from oomph.predict.optimizers.script import ScriptedStepper

# A job has one optimizer: what others need is imported where it is made.
NAMES = ("adamw", "adam", "sgd", "adafactor", "lion", "muon")
#: Versions from which block maxima are per 256 elements (bitsandbytes' pull request 1365, torchao's 927).
_BNB_256 = (0, 44)
_TORCHAO_256 = (0, 6)
#: transformers asks bitsandbytes for 32-bit states of embeddings: not up to 4.51 (whose test of the class's name no
#: longer held since it passed `AdamW` with optim_bits), surely in 4.57. In between it is assumed.
_HUB_FULL_EMBEDDINGS = (4, 52)
_FOREACH_BY_DEFAULT = (2, 0)
_ZERO = ("zero1", "zero2", "zero3")


def stepper_for(job: Job) -> Stepper:
    """The stepper of a job's optimizer. Raises UsageError for an optimizer, or a pair of optimizer and
    implementation, that is not modelled."""
    made = _on_device(job)
    if _on_host(job):
        from oomph.predict.optimizers.host import HostStepper

        return HostStepper(name=f"{made.name}, on the host", in_backward=made.in_backward)
    if job.precision.master and job.parallel.strategy not in _ZERO and job.method.name == "full":
        from oomph.predict.optimizers.master import MasterCopies

        name, inside = f"{made.name}, over fp32 masters", made.in_backward
        return MasterCopies(inner=made, name=name, assumptions=made.assumptions, in_backward=inside)
    return made


def _on_host(job: Job) -> bool:
    return job.parallel.offload_parameters or job.optimizer.offload in ("cpu", "nvme")


def _on_device(job: Job) -> ScriptedStepper:
    optimizer = job.optimizer
    name = optimizer.name.lower()
    if name not in NAMES:
        known = ", ".join(NAMES)
        raise UsageError(
            f"The optimizer {optimizer.name!r} is not modelled; {known} are. Use `oomph trace` instead."
        )
    if optimizer.impl == "torchao" or optimizer.state in ("int4", "fp8"):
        return _torchao(job, name)
    paged = optimizer.impl == "bnb_paged" or optimizer.offload == "paged"
    if optimizer.impl == "bnb" or paged or optimizer.state == "int8":
        return _bitsandbytes(job, name, paged)
    made = _plain(job, name)
    if optimizer.impl == "in_backward":
        return replace(made, in_backward=True, name=f"{made.name}, in backward")
    return made


def _bitsandbytes(job: Job, name: str, paged: bool) -> ScriptedStepper:
    if name in ("adafactor", "muon"):
        raise UsageError(f"bitsandbytes has no {name}; with it use adamw, adam, lion or sgd.")
    version = job.framework.version("bitsandbytes")
    old = version is not None and version < _BNB_256
    bits = 8 if job.optimizer.state == "int8" else 32
    hub = job.framework.version("transformers")
    embeddings = job.framework.name in ("transformers", "trl") and not (
        hub is not None and hub < _HUB_FULL_EMBEDDINGS
    )
    assumptions = []
    if bits == 8 and version is None:
        assumptions.append("bitsandbytes' version is not known: blocks of 256 elements, as since 0.44")
    if bits == 8 and embeddings and hub is None:
        assumptions.append(
            "the Trainer keeps 32-bit states for embeddings, as newer versions of transformers do"
        )
    from oomph.predict.optimizers.bnb import Bitsandbytes

    in_backward = job.optimizer.impl == "in_backward"
    kind = f"{_written(name)}, bitsandbytes {bits}-bit{', paged' if paged else ''}"
    return Bitsandbytes(
        bits=bits,
        states=1 if name in ("lion", "sgd") else 2,
        paged=paged,
        block=2048 if old else 256,
        fp32_embeddings=embeddings,
        in_backward=in_backward,
        name=f"{kind}, in backward" if in_backward else kind,
        assumptions=tuple(assumptions),
    )


def _torchao(job: Job, name: str) -> ScriptedStepper:
    if name not in ("adamw", "adam"):
        raise UsageError(f"torchao's low-bit optimizers are AdamW and Adam, not {name}.")
    bits = {"int8": 8, "int4": 4, "fp8": 0}.get(job.optimizer.state or "int8")
    if bits is None:
        raise UsageError(f"torchao's optimizers have int8, int4 or fp8 states, not {job.optimizer.state}.")
    version = job.framework.version("torchao")
    old = version is not None and version < _TORCHAO_256 and bits != 4
    from oomph.predict.optimizers.torchao import Torchao

    in_backward = job.optimizer.impl == "in_backward"
    kind = f"{_written(name)}, torchao {f'{bits}-bit' if bits else 'fp8'}"
    return Torchao(
        bits=bits,
        block=2048 if old else None,
        in_backward=in_backward,
        name=f"{kind}, in backward" if in_backward else kind,
    )


def _plain(job: Job, name: str) -> ScriptedStepper:
    impl, torch = _impl(job), job.framework.version("torch")
    state = None if job.optimizer.state is None else ITEM_BYTES[job.optimizer.state]
    if name in ("adamw", "adam"):
        return replace(_adam(impl, state, torch), name=f"{_written(name)}, {_IMPLS[impl]}")
    if name == "sgd":
        from oomph.predict.optimizers.sgd import Sgd

        kind = impl if impl in ("fused", "for_loop") else "foreach"
        return Sgd(impl=kind, momentum=job.optimizer.momentum, name=f"SGD, {_IMPLS[kind]}")
    if name == "lion":
        from oomph.predict.optimizers.lion import Lion

        return Lion(state_bytes=state, name="Lion, one parameter after the other")
    if name == "muon":
        from oomph.predict.optimizers.muon import Muon

        return Muon(
            rest=_adam(impl, state, torch),
            name="Muon, and AdamW for what is no matrix of a block",
            assumptions=("embeddings, the output layer and vectors are stepped by AdamW",),
        )
    from oomph.predict.optimizers.adafactor import HubAdafactor, TorchAdafactor

    if job.framework.name in ("", "transformers", "trl"):
        return HubAdafactor(name="Adafactor of transformers")
    return TorchAdafactor(name="Adafactor of torch.optim", gpu=_processors(job), torch=_torch(torch))


def _processors(job: Job) -> tuple[int, int] | None:
    gpu = gpu_named(job.hardware.gpu) if job.hardware.gpu else None
    return None if gpu is None else (gpu.multiprocessors, gpu.threads_per_multiprocessor)


def _torch(version: tuple[int, ...] | None) -> tuple[int, int]:
    return (version[0], version[1] if len(version) > 1 else 0) if version else (2, 13)


def _impl(job: Job) -> str:
    """foreach was not the default before PyTorch 2.0, and jobs do not say whether it was asked for."""
    impl = job.optimizer.impl
    torch = job.framework.version("torch")
    if impl == "foreach" and torch is not None and torch < _FOREACH_BY_DEFAULT:
        return "for_loop"
    return "foreach" if impl == "in_backward" else impl


def _adam(impl: str, state: float | None, torch: tuple[int, ...] | None) -> Adam:
    if impl == "fused":
        return FusedAdam(state_bytes=state, torch=torch)
    if impl == "for_loop":
        return LoopAdam(state_bytes=state, torch=torch)
    return ForeachAdam(state_bytes=state, torch=torch, capturable=impl == "capturable")


def _written(name: str) -> str:
    return {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD", "lion": "Lion"}[name]


_IMPLS = {
    "foreach": "foreach",
    "fused": "fused",
    "for_loop": "one parameter after the other",
    "capturable": "foreach and capturable",
}
