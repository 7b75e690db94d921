"""From the command line of `oomph plan` to a job, and what had to be assumed for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

from msgspec.structs import replace

from oomph.cli import plan_words as words
from oomph.errors import UsageError
from oomph.job.change import setting, with_values
from oomph.job.defaults import with_defaults
from oomph.job.model import Framework, Job, Lora, Method, ObjectiveName
from oomph.job.placement import with_hardware, with_ranks
from oomph.units import format_bytes, size_given

if TYPE_CHECKING:
    from oomph.cli.plan import Request
    from oomph.hardware.names import Asked

#: PyTorch asks the driver for no less (kSmallBuffer in c10/cuda/CUDACachingAllocator.cpp).
_SMALLEST = 2 << 20
#: GPUs of the machines that most such jobs run on.
_USUAL = 8


@dataclass(frozen=True)
class Understood:
    """A job as it was asked for. `notes` are sentences about what was read, `assumptions` about what nobody said.
    `unsupported`: what the files ask for that a job cannot say. `open_precision`: nobody said a precision."""

    job: Job
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    open_precision: bool = False


@dataclass
class _Overlay:
    """Values for paths of the job, in the order in which they are set."""

    values: dict[str, object] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)

    def put(self, path: str, value: object | None) -> None:
        """A value, unless it is None: what was not given changes nothing."""
        if value is not None:
            self.values[path] = value


def job_of(request: Request) -> Understood:
    """The job that inputs and flags describe, in which flags have the last word. Raises UsageError and InputError."""
    from oomph.job.inputs import read_inputs

    found = _found(request)
    given = read_inputs(request.inputs, network=request.network, gpus=_count(request, found))
    overlay = _Overlay()
    job = _with_hardware(given.job, request, found, overlay)
    for part in (_method, _parallel, _batch, _rest):
        part(request, overlay, job)
    for text in request.settings:
        path, value = setting(text)
        overlay.put(path, value)
    job = _with_values(job, overlay.values)
    job = with_ranks(job, overlay.values)
    said = {*overlay.values, *overlay.said, *given.said}
    job, assumptions = with_defaults(job, said)
    if not job.model.family and not job.model.config:
        raise UsageError(
            "No model is named: give its name (meta-llama/Llama-3.1-8B), a folder with its config.json, or a job file"
        )
    open_precision = not any(path.split(".")[0] == "precision" for path in said)
    return Understood(job, assumptions, given.notes, given.unsupported, open_precision)


def _with_values(job: Job, values: dict[str, object]) -> Job:
    """The job with the values; parts that are structs already stand as they are."""
    for path, value in values.items():
        if isinstance(value, str):
            job = with_values(job, {path: value})
            continue
        *parents, name = path.split(".")
        job = _replaced(job, parents, name, value)
    return job


def _replaced(part: Any, parents: list[str], name: str, value: object) -> Any:
    if not parents:
        return replace(part, **{name: value})
    first, *rest = parents
    return replace(part, **{first: _replaced(getattr(part, first), rest, name, value)})


def _found(request: Request) -> Asked | None:
    """GPU and machine by what they are called."""
    from oomph.hardware.names import asked, machine_type

    found = asked(request.gpu) if request.gpu else None
    if request.machine:
        its = asked(machine_type(request.machine).name)
        if found and found.gpu.short_name != its.gpu.short_name:
            raise UsageError(
                f"--machine {request.machine} has {its.gpu.name}, and --gpu says {found.gpu.name}: give one of them"
            )
        found = its
    return found


def _with_hardware(job: Job, request: Request, found: Asked | None, overlay: _Overlay) -> Job:
    """The job on the GPU that was found, with the number of GPUs, and what of each is free."""
    count = _count(request, found)
    overlay.put("hardware.gpus", count)
    overlay.put("hardware.free_bytes", _free(request))
    overlay.put("hardware.capacity_bytes", _size("--capacity", request.capacity))
    return with_hardware(job, found, count, request.per_node)


def _count(request: Request, found: Asked | None) -> int | None:
    """The number of GPUs where something says it."""
    from oomph.cli.plan_fit import clouds_of

    if request.gpus is None:
        return found.count if found else None
    if clouds_of(request.gpus):
        # Machines are compared, each with its own number of GPUs: a job that shares its work begins with a usual one.
        shared = request.ddp or request.fsdp or request.fsdp1 or request.zero
        return found.count if found and found.count else _USUAL if shared else None
    text = request.gpus.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 7 and int(text) > 0):
        raise UsageError(f"--gpus {text[:60]!r}: give the number of GPUs in all, from 1 to 999,999")
    return int(text)


def _free(request: Request) -> int | None:
    if request.free is not None and request.free.strip().lower() == "now":
        from oomph.cli.plan_free import free_now

        return free_now()
    return _size("--free", request.free)


def _size(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    size = size_given(text)
    if size is None:
        raise UsageError(f"{option} {text[:60]!r} is no size; give one like 78GiB, or bytes")
    if size < _SMALLEST:
        raise UsageError(
            f"{option} {text[:60]!r} is {format_bytes(size)}, in which PyTorch can have nothing; say the unit: 24GiB"
        )
    return size


def _method(request: Request, overlay: _Overlay, job: Job) -> None:
    """Full training, adapters, quantised weights: flags that go together, and those that do not."""
    name = request.method.strip().lower() if request.method else None
    if name not in (None, "full", "lora", "qlora"):
        raise UsageError(f"--method {request.method!r:.60}: it takes full, lora or qlora")
    quantised = request.qlora or name == "qlora"
    adapters = quantised or name == "lora" or request.lora is not None or request.dora
    if name == "full" and adapters:
        raise UsageError("--method full trains all weights; leave --lora, --dora and --qlora out")
    method = job.method
    if name == "full":
        overlay.put("method", Method())
        return
    if not adapters and request.lora_targets is None and request.quantization is None:
        return
    if not adapters and method.lora is None:
        option = "--lora-targets" if request.lora_targets else "--quantization"
        raise UsageError(f"{option} is for adapters: give --lora RANK or --qlora as well")
    lora = method.lora or Lora()
    if request.lora is not None:
        lora = replace(lora, rank=request.lora)
    if request.lora_targets is not None:
        targets = tuple(part.strip() for part in request.lora_targets.split(",") if part.strip())
        if not targets:
            raise UsageError("--lora-targets is empty: name modules (q_proj,v_proj), or say all-linear")
        lora = replace(lora, targets=targets)
        overlay.said.add("method.lora.targets")
    lora = replace(lora, dora=request.dora or lora.dora)
    quantization = method.quantization
    if request.quantization is not None:
        quantization = words.quantization(request.quantization)
    elif quantised and quantization is None:
        quantization = replace(words.quantization("nf4-double"), prepared=True)
    overlay.put("method", Method("qlora" if quantization else "lora", lora, quantization, method.frozen))


def _parallel(request: Request, overlay: _Overlay, job: Job) -> None:
    strategies = {
        "--ddp": "ddp" if request.ddp else None,
        "--fsdp": words.fsdp("--fsdp", request.fsdp) if request.fsdp else None,
        "--fsdp1": words.fsdp("--fsdp1", request.fsdp1) if request.fsdp1 else None,
        "--zero": _zero(request.zero),
    }
    given = [option for option, strategy in strategies.items() if strategy is not None]
    if len(given) > 1:
        raise UsageError(
            f"{' and '.join(given)} contradict each other: a job has one way to share the weights"
        )
    if given:
        overlay.put("parallel.strategy", strategies[given[0]])
    for name in ("tensor", "context", "pipeline", "expert"):
        overlay.put(f"parallel.{name}", getattr(request, name))
    overlay.put("parallel.sequence_parallel", True if request.sequence_parallel else None)
    away = words.offloads(request.offload)
    overlay.put("parallel.offload_parameters", True if "parameters" in away else None)
    overlay.put("activation_offload", True if "activations" in away else None)
    if request.optimizer is not None:
        overlay.put("optimizer", words.optimizer(request.optimizer))
    if {"optimizer", "nvme"} & away:
        optimizer = words.optimizer(request.optimizer) if request.optimizer else job.optimizer
        overlay.put("optimizer", replace(optimizer, offload="nvme" if "nvme" in away else "cpu"))


def _zero(text: str | None) -> str | None:
    if text is None:
        return None
    if text.strip() not in ("1", "2", "3"):
        raise UsageError(f"--zero {text[:60]!r}: give a stage, 1, 2 or 3")
    return f"zero{text.strip()}"


def _batch(request: Request, overlay: _Overlay, _: Job) -> None:
    overlay.put("batch.micro", request.batch)
    overlay.put("batch.sequence", request.seq)
    overlay.put("batch.accumulation", request.accumulation)


def _rest(request: Request, overlay: _Overlay, job: Job) -> None:
    for path, word, meant in (
        ("precision", request.precision, words.precision),
        ("checkpointing", request.checkpointing, words.checkpointing),
        ("attention", request.attention, words.attention),
        ("loss", request.loss, words.loss),
    ):
        overlay.put(path, None if word is None else meant(word))
    overlay.put("compile", True if request.compiled else None)
    overlay.put("objective.name", _objective(request.objective))
    overlay.put("evaluation.batch", request.eval_batch)
    overlay.put("evaluation.generate", request.generate)
    overlay.put("allocator", request.alloc_conf)
    framework = _framework(request, job.framework)
    overlay.put("framework", None if framework == job.framework else framework)


def _objective(text: str | None) -> str | None:
    """An objective by its name, as people write it."""
    if text is None:
        return None
    name = text.strip().lower()
    if name not in get_args(ObjectiveName):
        known = ", ".join(get_args(ObjectiveName)[1:])
        raise UsageError(f"--objective {text[:60]!r}: it takes {known}, or default")
    return name


def _framework(request: Request, known: Framework) -> Framework:
    """The first --framework names whose code trains; all may say versions."""
    versions = dict(known.versions)
    name = known.name
    for place, text in enumerate(request.framework):
        library, equals, version = text.strip().partition("=")
        library = library.strip().lower()
        if not library or (equals and not version.strip()):
            raise UsageError(f"--framework {text[:60]!r}: write it as NAME or NAME=VERSION")
        if place == 0:
            name = library
        if equals:
            versions[library] = _version(f"--framework {library}=", version)
    if request.torch is not None:
        versions["torch"] = _version("--torch", request.torch)
    return Framework(name=name, versions=tuple(sorted(versions.items())))


def _version(option: str, text: str) -> str:
    """A version or the start of a commit's hash: either has a digit."""
    if not any(each.isascii() and each.isdigit() for each in text):
        raise UsageError(f"{option} {text.strip()[:60]!r}: give a version, like 2.9")
    return text.strip()
