"""What a model is made of: every parameter with its name, shape and kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Literal

Kind = Literal["linear", "embedding", "norm", "bias", "conv", "other"]
"""What a parameter belongs to. linear: the weight of a matrix product that adapters and quantisation can take; bias:
of a linear or convolution; norm: weight or bias of a normalisation; other: what is in no such module (class tokens,
relative positions, routers and fused experts that a module keeps as bare tensors)."""


@dataclass(frozen=True)
class Parameter:
    """One parameter, or the same one in each of several layers.

    `name` is the whole name as `named_parameters()` gives it, with `{}` where the number of the layer stands. `layers`
    are the layers that have it; None: it is in no layer. `tied`: the name of the parameter that is the same tensor; it
    takes no memory of its own and is not counted.
    """

    name: str
    shape: tuple[int, ...]
    kind: Kind
    layers: range | None = None
    tied: str = ""

    @property
    def numel(self) -> int:
        """Elements of one of them."""
        return prod(self.shape)

    @property
    def count(self) -> int:
        """In how many layers it is; 1 outside of layers."""
        return 1 if self.layers is None else len(self.layers)

    @property
    def total(self) -> int:
        """Elements of all of them; 0 where it is tied."""
        return 0 if self.tied else self.numel * self.count

    @property
    def stack(self) -> str:
        """The list of layers that it is in (`model.layers`), "" outside of layers."""
        return "" if self.layers is None else self.name.partition(".{}")[0]

    @property
    def relative(self) -> str:
        """The name within its layer (`self_attn.q_proj.weight`); the whole name outside of layers."""
        return self.name if self.layers is None else self.name.partition("{}.")[2]

    @property
    def module(self) -> str:
        """The last part of its module's name, as adapters' targets are written (`q_proj`)."""
        return self.name.rpartition(".")[0].rpartition(".")[2]

    def at(self, layer: int) -> str:
        """The whole name in this layer."""
        return self.name.replace("{}", str(layer), 1)


@dataclass(frozen=True)
class Architecture:
    """All parameters of a model, in the order in which its class registers them.

    `embedding` and `head` are the names of the modules of the input embedding and of the output layer ("" where there
    is none); `learned_positions` says for how many positions an embedding was learned (None: none is learned, so that
    a sequence may be longer).
    """

    family: str
    parameters: tuple[Parameter, ...]
    embedding: str = ""
    head: str = ""
    learned_positions: int | None = None

    @cached_property
    def total(self) -> int:
        """Elements of all parameters, tied ones once."""
        return sum(one.total for one in self.parameters)

    @cached_property
    def stacks(self) -> tuple[str, ...]:
        """The lists of layers, in order (`model.layers`; an encoder and a decoder have one each)."""
        return tuple(dict.fromkeys(one.stack for one in self.parameters if one.stack))

    def depth(self, stack: str = "") -> int:
        """The number of layers of a stack, by default the first; 0 where there is none."""
        name = stack or (self.stacks[0] if self.stacks else "")
        ends = [one.layers.stop for one in self.parameters if one.layers is not None and one.stack == name]
        return max(ends, default=0)

    def layer(self, number: int = 0, stack: str = "") -> tuple[Parameter, ...]:
        """The parameters of one layer of a stack (by default of the first), in order; `relative` names them."""
        name = stack or (self.stacks[0] if self.stacks else "")
        return tuple(
            one
            for one in self.parameters
            if one.layers is not None and one.stack == name and number in one.layers
        )

    @property
    def outside(self) -> tuple[Parameter, ...]:
        """The parameters that are in no layer, in order."""
        return tuple(one for one in self.parameters if one.layers is None)

    @cached_property
    def per_layer(self) -> tuple[int, ...]:
        """Elements of each layer: those of the first stack, then those of the next."""
        return tuple(
            sum(one.numel for one in self.layer(number, stack) if not one.tied)
            for stack in self.stacks
            for number in range(self.depth(stack))
        )

    @property
    def linears(self) -> tuple[str, ...]:
        """Names of the linear modules within a layer of any stack (`self_attn.q_proj`), each once, in order."""
        found = (
            one.relative.rpartition(".")[0] for one in self.parameters if one.kind == "linear" and one.layers
        )
        return tuple(dict.fromkeys(found))

    def named(self) -> Iterator[tuple[str, Parameter]]:
        """Every parameter by its whole name, in the order of `named_parameters(remove_duplicate=False)`."""
        done: set[str] = set()
        for one in self.parameters:
            if one.layers is None:
                yield one.name, one
            elif one.stack not in done:
                done.add(one.stack)
                for number in range(self.depth(one.stack)):
                    for each in self.layer(number, one.stack):
                        yield each.at(number), each
