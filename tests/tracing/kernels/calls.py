"""Calls to ask rules about, with tensors that have no memory, and the two GPUs whose runs were recorded."""

from __future__ import annotations

from typing import Any

import torch

from oomph.hardware.gpus import Gpu
from oomph.tracing.kernels.apply import plan
from oomph.tracing.kernels.registry import all_rules
from oomph.tracing.kernels.rule import Call, Keep, Output, Take

A100 = Gpu("A100", (8, 0), 108, 2048, 80 * 2**30)
H100 = Gpu("H100", (9, 0), 132, 2048, 80 * 2**30)
B200 = Gpu("B200", (10, 0), 148, 2048, 180 * 2**30)
RULES = {rule.name: rule for rule in all_rules().rules}
aten = torch.ops.aten


def tensor(*shape: int, dtype: torch.dtype = torch.float32, strides: tuple[int, ...] | None = None) -> Any:
    """A tensor without memory."""
    if strides is None:
        return torch.empty(shape, dtype=dtype, device="meta")
    return torch.empty_strided(shape, strides, dtype=dtype, device="meta")


def call(
    op: Any, *args: Any, gpu: Gpu = A100, torch: tuple[int, int] = (2, 13), memory: Any = None, **kwargs: Any
) -> Call:
    """One call on device 0, stream 0, thread 1."""
    return Call(op, args, kwargs, gpu, torch, 0, 0, 1, {} if memory is None else memory)


def steps(name: str, outputs: int, what: Call) -> list[tuple[str, int]]:
    """What a rule says of a call, as ("out", index), ("take" | "keep", bytes) and ("give", position of the take)."""
    effect = RULES[name].effect(what)
    if effect is None:
        return [("out", index) for index in range(outputs)]
    result: list[tuple[str, int]] = []
    taken: dict[str, int] = {}
    for step in plan([effect], outputs).steps:
        if isinstance(step, Take):
            taken[step.name] = len(result)
            result.append(("take", step.bytes))
        elif isinstance(step, Keep):
            result.append(("keep", step.bytes))
        elif isinstance(step, Output):
            result.append(("out", step.index or 0))
        else:
            result.append(("give", taken[step.name]))
    return result


def taken(name: str, what: Call) -> list[int]:
    """The sizes that a rule takes in a call, in order."""
    effect = RULES[name].effect(what)
    return [] if effect is None else [step.bytes for step in effect.steps if isinstance(step, Take)]


def peak(calls: list[Call], results: list[int], without: str | tuple[str, ...] = ()) -> int:
    """The most bytes that are live at once in the calls, of which every call has results of these sizes, which go when
    it ends. `without` leaves out rules."""
    names = (without,) if isinstance(without, str) else without
    rules = all_rules().without(*names).by_operator()
    kept = most = 0
    for what in calls:
        packet = str(what.op).rsplit(".", 1)[0]
        asked = [*rules.get(packet, ()), *rules.get(str(what.op), ())]
        effects = [effect for rule in asked if (effect := rule.effect(what)) is not None]
        live: dict[str, int] = {}
        done = 0
        for step in plan(effects, len(results)).steps:
            if isinstance(step, Take):
                live[step.name] = step.bytes
            elif isinstance(step, Keep):
                kept += step.bytes
            elif isinstance(step, Output):
                done += results[step.index or 0]
            else:
                del live[step.name]
            most = max(most, kept + done + sum(live.values()))
    return most
