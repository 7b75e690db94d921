"""Records a denoiser: forward and loss of a training script, once for each set of dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from oomph.tracing.programs.cut import Link
from oomph.tracing.programs.denoisers.parts import Part, parts
from oomph.tracing.programs.errors import ProgramError
from oomph.tracing.programs.forward import Batch, Build, Studio
from oomph.tracing.programs.record import Made, kept_of
from oomph.tracing.programs.symbols import Symbols
from oomph.tracing.programs.watch import Run, Watch

#: Runs the model as accelerate has wrapped it: autocast around its forward, and its outputs in fp32.
Call = Callable[..., Any]
#: The script's lines from the latents to the loss: gets the wrapped model, the batch and the dimensions.
Loop = Callable[[Call, Mapping[str, Any], Mapping[str, int]], Mapping[str, Any]]


@dataclass(frozen=True)
class Denoiser:
    """What is recorded. `modules(net)`: names of the modules that are parts; `stacks`, `name`: as `parts` takes
    them."""

    build: Build
    loop: Loop
    batch: Batch
    modules: Callable[[Any], Sequence[str]]
    stacks: Sequence[str] = ()
    precision: str = "bf16"
    name: Callable[[str], str] | None = None


@dataclass(frozen=True)
class Recorded:
    """`made`: sections as the store takes them. `order`: for each part in order its section, its module, and the stack
    that it begins ("" for none); of a stack only the first."""

    made: Made
    order: list[dict[str, str]]


def forward(studio: Studio, denoiser: Denoiser, dimensions: Mapping[str, int]) -> Run:
    """Runs once, in training mode and without gradients."""
    import torch

    watch = Watch(dimensions)
    studio.watching(watch)
    with ExitStack() as stack:
        net = denoiser.build(dimensions)
        low = denoiser.precision.startswith("bf16")
        if low:
            net = net.to(torch.bfloat16)
        on_meta = any(each.is_meta for each in net.parameters())
        net = (net.to_empty(device="cuda") if on_meta else net.to("cuda")).train()
        batch = {
            name: (tensor.to(torch.bfloat16) if low and tensor.is_floating_point() else tensor).to("cuda")
            for name, tensor in denoiser.batch(dimensions).items()
        }
        watch.module(net)
        watch.inputs(batch)
        for name in denoiser.modules(net):
            _hooks(stack, net.get_submodule(name), name, watch)
        with torch.no_grad(), watch.mode():
            kept = denoiser.loop(_wrapped(net, denoiser.precision), batch, dimensions)
            watch.run.kept = {name: watch.number(tensor) for name, tensor in kept.items()}
        watch.close()
    return watch.run


def _hooks(stack: ExitStack, module: Any, name: str, watch: Watch) -> None:
    def begins(_module: Any, _args: Any) -> None:
        watch.mark(f"begin {name}")

    def ends(_module: Any, _args: Any, _out: Any) -> None:
        watch.mark(f"end {name}")

    stack.callback(module.register_forward_pre_hook(begins).remove)
    stack.callback(module.register_forward_hook(ends).remove)


def _wrapped(net: Any, precision: str) -> Call:
    """accelerate/accelerator.py, prepare_model; utils/operations.py, convert_outputs_to_fp32."""
    import torch

    if not precision.endswith("autocast"):
        return net

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = net(*args, **kwargs)
        return tuple(each.float() for each in out)

    return call


def record(
    denoiser: Denoiser,
    dimension_sets: Sequence[Mapping[str, int]],
    names: Sequence[str],
    studio: Studio,
    sizes: Callable[[Sequence[Mapping[str, int]], Sequence[str]], Symbols] = Symbols,
) -> Recorded:
    """The parts with sizes as expressions of `names`. Raises ProgramError where the runs differ in more than sizes, or
    modules of a stack differ after the first. `sizes` finds the expressions."""
    cuts = [parts(forward(studio, denoiser, each), denoiser.stacks, denoiser.name) for each in dimension_sets]
    merged = [_merged(found) for found, _ in cuts]
    kept = [links for _, links in cuts]
    if any(each != kept[0] for each in kept[1:]):
        raise ProgramError("what is kept depends on the dimensions")
    return _made(merged, kept[0], sizes(dimension_sets, names), denoiser.stacks)


def _merged(found: list[Part]) -> list[Part]:
    """Of each stack the first module, where it is linked otherwise than the others, and one of the others."""
    kept: list[Part] = []
    for part in found:
        known = [each for each in kept if each.name == part.name]
        if len(known) == 2:
            if known[1].section != part.section:
                raise ProgramError(f"modules of {part.name} differ")
        else:
            kept.append(part)
    return kept


def _made(
    runs: Sequence[list[Part]], kept: Mapping[str, Link], symbols: Symbols, stacks: Sequence[str]
) -> Recorded:
    sections: dict[str, dict[str, Any]] = {}
    order: list[dict[str, str]] = []
    for number, part in enumerate(runs[0]):
        each = [run[number] for run in runs]
        if any((one.name, one.first) != (part.name, part.first) for one in each):
            raise ProgramError("which modules run depends on the dimensions")
        several = sum(one.name == part.name for one in runs[0]) > 1
        name = f"{part.name}/first" if several and part.first else part.name
        sections[name] = symbols.section([one.section for one in each])
        if part.first:
            stack = part.module.rpartition(".")[0]
            stack = stack if stack in stacks else ""
            order.append({"part": part.name, "module": "" if stack else part.module, "stack": stack})
    return Recorded(Made(sections, kept_of(kept)), order)
