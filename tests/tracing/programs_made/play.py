"""Plays a program as its page reads, and measures the same forward pass: two ways to the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oomph.memory.recipe.grammar import parse
from oomph.predict.programs import Program
from oomph.tracing.programs.forward import Subject

_NOT_OURS = ("parameter", "buffer", "input", "host")


class Played:
    """Bytes that are alive: at most, and at the end, over what is there before (parameters and the batch)."""

    def __init__(self, program: Program, dimensions: Mapping[str, int], kinds: Sequence[str] = ()) -> None:
        self.program = program
        self.kinds = kinds or ("block",) * dimensions["layers"]
        self.sizes = [parse(row[1]).evaluate(dimensions, {}) for row in program.storages]
        self.alive: dict[tuple[int, int], int] = {}
        self.peak = 0
        self.out: tuple[int, int] | None = None
        self.late = self._dropped_later()
        for layer, name in self._order():
            self._section(layer, name)
        self.end = sum(self.alive.values())

    def _order(self) -> list[tuple[int, str]]:
        blocks = list(enumerate(self.kinds))
        if "first" in self.program.sections:
            blocks[0] = (0, "first")
        return [(-1, "before"), *blocks, (-1, "after"), (-1, "loss")]

    def _dropped_later(self) -> set[int]:
        later = [self.program.sections[name].items for name in ("after", "loss")]
        return {item[1] for items in later for item in items if item[0] == "drop"}

    def _section(self, layer: int, name: str) -> None:
        section = self.program.sections[name]
        inlet = None if section.inlet is None else self.program.tensors[section.inlet][0]
        came, scope = self.out, layer
        own = self._own(name)
        for kind, *item in section.items:
            if kind == "op":
                for number in item[2]:
                    if number is not None:
                        self._appears(self.program.tensors[number][0], own, scope)
            elif kind == "drop_previous":
                if layer > 0:
                    del self.alive[item[0], layer - 1]
            elif item[0] == inlet:
                if came is not None and not (came[1] == -1 and layer == 0 and came[0] in self.late):
                    del self.alive[came]
            elif item[0] in own:
                del self.alive[item[0], scope]
            else:
                for key in [key for key in self.alive if key[0] == item[0]]:
                    del self.alive[key]
            self.peak = max(self.peak, sum(self.alive.values()))
        if section.outlet is not None:
            storage = self.program.tensors[section.outlet][0]
            self.out = came if storage == inlet else (storage, scope if storage in own else -1)

    def _own(self, name: str) -> set[int]:
        """Storages that this section makes."""
        seen: set[int] = set()
        for each, section in self.program.sections.items():
            made = {
                self.program.tensors[number][0]
                for item in section.items
                if item[0] == "op"
                for number in item[3]
                if number is not None
            }
            if each == name:
                return made - seen
            seen |= made
        raise AssertionError(name)

    def _appears(self, storage: int, own: set[int], scope: int) -> None:
        if storage in own and self.program.storages[storage][0] == "own":
            self.alive.setdefault((storage, scope), self.sizes[storage])


def measured(subject: Subject, dimensions: Mapping[str, int]) -> tuple[int, int]:
    """Most bytes that tensors hold during a forward pass, and at its end, over what is there before."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from oomph.hardware.names import gpu
    from oomph.tracing.session import Session
    from oomph.tracing.settings import TraceSettings

    with Session(TraceSettings(gpu("a100-80gb"), (2, 13), stacks=False)) as session:
        storages = session.recorder.storages

        def bytes_now() -> int:
            return sum(block.size for block in storages.alive())

        class Look(TorchDispatchMode):
            most = 0

            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                out = func(*args, **(kwargs or {}))
                Look.most = max(Look.most, bytes_now())
                return out

        net = subject.build(dimensions)
        bf16 = subject.precision.startswith("bf16")
        net = (net.to(torch.bfloat16) if bf16 else net).to("cuda").train()
        batch = {name: tensor.to("cuda") for name, tensor in subject.batch(dimensions).items()}
        before = bytes_now()
        with torch.no_grad(), Look():
            autocast = subject.precision.endswith("autocast")
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
                kept = subject.run(net, batch, dimensions)
            end = bytes_now() - before
        del kept
    return Look.most - before, end
