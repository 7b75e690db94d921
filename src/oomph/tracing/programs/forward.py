"""One forward pass of a module on the simulated GPU, cut at its layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

from oomph.hardware.gpus import Gpu
from oomph.hardware.names import gpu as gpu_named
from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.watch import Run, Tensor, Watch
from oomph.tracing.settings import TraceSettings, Version

#: Makes the module on the CPU for these dimensions; raises what the class raises.
Build = Callable[[Mapping[str, int]], Any]
#: Runs forward: gets the module, the batch by name and the dimensions, and returns what the training loop keeps:
#: tensors by name.
Forward = Callable[[Any, Mapping[str, Any], Mapping[str, int]], Mapping[str, Any]]
#: Makes a batch on the CPU.
Batch = Callable[[Mapping[str, int]], Mapping[str, Any]]


@dataclass(frozen=True)
class Subject:
    """What is recorded. `layers` is the name of the list of layers and `head` that of the output layer, as
    `get_submodule` takes them. `precision`: fp32, bf16, fp32-autocast, bf16-autocast."""

    build: Build
    run: Forward
    batch: Batch
    layers: str
    head: str
    precision: str = "bf16"


def text_batch(dimensions: Mapping[str, int]) -> dict[str, Any]:
    """Token ids, a mask that masks nothing, and labels: one tensor each, as data collators make them."""
    import torch

    shape = (dimensions["b"], dimensions["s"])
    return {
        "input_ids": torch.zeros(shape, dtype=torch.int64),
        "attention_mask": torch.ones(shape, dtype=torch.int64),
        "labels": torch.zeros(shape, dtype=torch.int64),
    }


class Studio:
    """Context manager: a simulated GPU on which forward passes are recorded, one after the other."""

    def __init__(self, gpu: Gpu | None = None, torch: Version = (2, 13)) -> None:
        from oomph.tracing.session import Session

        self._session = Session(TraceSettings(gpu or gpu_named("a100-80gb"), torch, stacks=False))
        self._now: list[Watch] = []

    def __enter__(self) -> Studio:
        self._session.__enter__()
        assert self._session.recorder is not None
        _watch_flash(self._session.recorder, self._now)
        _watch_autocast(self._session.recorder, self._now)
        return self

    def __exit__(self, *error: Any) -> None:
        self._session.__exit__(*error)

    def watching(self, watch: Watch) -> None:
        """What runs from now on is written down there."""
        self._now[:] = [watch]

    def forward(self, subject: Subject, dimensions: Mapping[str, int]) -> Run:
        """Runs once, in training mode and without gradients, so that storages die when Python's references end. Raises
        ProgramError for what a program has no form for."""
        watch = Watch(dimensions)
        self.watching(watch)
        _forward(subject, watch)
        return watch.run


def _forward(subject: Subject, watch: Watch) -> None:
    import torch

    dimensions = watch.run.dimensions
    with ExitStack() as stack:
        net = subject.build(dimensions)
        if subject.precision.startswith("bf16"):
            net = net.to(torch.bfloat16)
        net = net.to("cuda").train()
        batch = {name: tensor.to("cuda") for name, tensor in subject.batch(dimensions).items()}
        watch.module(net)
        watch.inputs(batch)
        _hooks(stack, net, subject, watch)
        with torch.no_grad(), watch.mode():
            with _autocast(subject.precision):
                kept = subject.run(net, batch, dimensions)
            watch.run.kept = {name: watch.number(tensor) for name, tensor in kept.items()}
        watch.close()


def _autocast(precision: str) -> Any:
    import torch

    if precision.endswith("autocast"):
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()


def _watch_autocast(recorder: Any, now: list[Watch]) -> None:
    """What autocast kept goes in the order of a hash table keyed by addresses, which is another in each process;
    nothing is allocated in between, so they are put in the order in which they came."""
    import torch

    def clear(original: Any) -> None:
        [watch] = now
        begin = len(watch.run.items)
        original()
        watch.sort(begin)

    recorder.patches.wrap(torch, "clear_autocast_cache", clear)


def _hooks(stack: ExitStack, net: Any, subject: Subject, watch: Watch) -> None:
    layers = list(_children(net.get_submodule(subject.layers)))
    if len(layers) < 3:
        raise ProgramError(f"{subject.layers} has {len(layers)} layers; three at least are recorded")
    for number, layer in enumerate(layers):

        def begins(_module: Any, args: Any, kwargs: Any, number: int = number) -> None:
            watch.mark(f"layer {number}", _first(args, kwargs))

        def ends(_module: Any, _args: Any, out: Any, number: int = number) -> None:
            watch.mark(f"end {number}", out[0] if isinstance(out, (tuple, list)) else out)

        stack.callback(layer.register_forward_pre_hook(begins, with_kwargs=True).remove)
        stack.callback(layer.register_forward_hook(ends).remove)

    def head(_module: Any, _args: Any, out: Any) -> None:
        watch.mark("head", out)

    stack.callback(net.get_submodule(subject.head).register_forward_hook(head).remove)


def _children(layers: Any) -> Any:
    return layers.values() if hasattr(layers, "values") else layers


def _first(args: Any, kwargs: Mapping[str, Any]) -> Any:
    import torch

    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            return value
    raise ProgramError("a layer is called without a tensor")


def _watch_flash(recorder: Any, now: list[Watch]) -> None:
    """flash_attn's stand-in becomes one operator, `flash_attn.forward`: its three inputs; the result, a float32 per row
    and head, and the random state (two int64), which only backward reads."""
    from oomph.tracing.libraries import flash

    def attention(original: Any, q: Any, k: Any, v: Any, sequences: int, deterministic: bool) -> Any:
        if q.shape[-1] % 8:
            raise ProgramError("flash_attn pads heads that are no multiple of 8")
        [watch] = now
        with watch.pause():
            out = original(q, k, v, sequences, deterministic)
        rows = (q.shape[1], q.shape[0]) if sequences else (q.shape[0], q.shape[2], q.shape[1])
        shape = tuple(int(size) for size in rows)
        strides = (shape[1], 1) if sequences else (shape[1] * shape[2], shape[2], 1)
        count = 4
        for size in shape:
            count *= size
        hidden = [Tensor(count, shape, strides, "fp32"), Tensor(16, (2,), (1,), "int64")]
        watch.made_up("flash_attn.forward", [q, k, v], {"sequences": sequences}, out, hidden)
        return out

    recorder.patches.wrap(flash, "attention", attention)
