"""What is visible to a section that is played, and what a parameter is in a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from oomph.hardware.gpus import Gpu
from oomph.predict.engine.compiled import Partition
from oomph.predict.engine.graph import Graph
from oomph.predict.engine.heap import Heap, Shape, Storage, Tensor, contiguous
from oomph.predict.engine.program import Values
from oomph.predict.programs.load import Program


@dataclass(frozen=True)
class Weight:
    """What a parameter is in this job. `stored`: dtype of what is resident, `trainable`, `quantized`: its values are
    made for each product (`dequantized` buffers of the compute dtype at once). `wide`: it is resident in fp32 although
    the recording's is not. `int8`: it is LLM.int8()'s, beside a model of bf16 or fp16 ("": it is not); `outliers`: some
    columns are multiplied apart (int8.py)."""

    trainable: bool = True
    quantized: bool = False
    dequantized: int = 1
    adapter: bool = False
    wide: bool = False
    int8: str = ""
    outliers: bool = False


class Weights(Protocol):
    """Looks parameters up by name, as the section names them."""

    def __call__(self, name: str) -> Weight: ...


class Adapters(Protocol):
    """Puts adapters beside the products that they adapt."""

    def see(
        self, scope: Scope, packet: str, weight: str | None, inputs: Sequence[Tensor | None], result: int
    ) -> None:
        """An operator has run; `weight` is the parameter that it multiplied by."""
        ...

    def comes_from(self, made: Tensor, source: Tensor) -> None:
        """`made` is a cast of `source`, which is what the adapted layer was given."""
        ...


@dataclass
class Scope:
    """What is visible to a section: tensors and storages of the variant by number. One scope per played copy of a
    section; `outer` tensors belong to sections that ran before and are never freed here."""

    program: Program
    values: Values
    heap: Heap
    graph: Graph | None
    weights: Weights
    gpu: Gpu | None = None
    torch: tuple[int, int] = (2, 13)
    autocast: bool = False
    #: scaled_dot_product_attention is held to its memory-efficient kernel.
    efficient: bool = False
    adapters: Adapters | None = None
    tensors: dict[int, Tensor] = field(default_factory=dict)
    storages: dict[int, Storage] = field(default_factory=dict)
    #: Weights that autocast has cast and keeps: parameter to tensor.
    cached: dict[str, Tensor] = field(default_factory=dict)
    #: torch.compile's choice of what exists (compiled.py).
    partition: Partition | None = None
    #: A checkpoint policy: which operators' results are kept (true) although the section is recomputed, and which of
    #: them backward reads (None: not asked); the storages that forward kept, or that a recomputation is given.
    policy: Callable[[str], bool] | None = None
    wanted: frozenset[int] | None = None
    kept: list[Storage] = field(default_factory=list)
    given: list[Storage] = field(default_factory=list)
    #: What the model returns, where the loss is its caller's; and the events and blocks up to then.
    returns: frozenset[int] = frozenset()
    returned: tuple[int, int] = (0, 0)
    returned_nodes: int = 0
    #: Inputs of quantised layers are attributes of their node, and live as long as the graph (bitsandbytes to 0.42).
    keeps_inputs: bool = False
    attributes: list[Storage] = field(default_factory=list)
    #: The graph of a forward that is recomputed keeps attributes all the same: it is there, its saved tensors are not.
    keeps_attributes: bool = False
    #: Called before each operator; true where it has done the operator's work (losses.py).
    instead: Any = None
    #: What is fp32 although it was recorded in less: 4-bit layers under autocast (widening.py).
    widening: Any = None
    #: Tensors that keep their source's dtype; and the name of the output layer's weight.
    low: set[int] = field(default_factory=set)
    head: str = ""
    #: Casts of frozen weights, which live as long as their product takes.
    passing: dict[str, Storage] = field(default_factory=dict)
    #: Tensors that are made to want a gradient although nothing that they are made of does; the graph holds them.
    leaves: frozenset[int] = frozenset()
    #: Storages whose drop by Python is left to somebody else.
    pinned: set[int] = field(default_factory=set)
    #: The item with the last tensor that is saved; and where a recomputation ends early (-1: it does not).
    last_save: int = -1
    stop: int = -1
    #: The same operator saves results of its own, so that it runs before the recomputation ends.
    saves_results: bool = False
    #: Operators that adapters added so far; the one that saved the last tensor, and where a recomputation ends within
    #: them (-1: it does not).
    added: int = 0
    last_added: int = -1
    stop_added: int = -1
    #: Which storage of the program each one is.
    ids: dict[int, int] = field(default_factory=dict)
    #: Ranks among which attention goes round (context parallelism).
    ring: int = 1

    def tensor(self, number: int) -> Tensor:
        """A tensor by number. One that no operator has made yet belongs to something outside: a parameter, an input, or
        another section; it takes nothing here."""
        found = self.tensors.get(number)
        if found is None:
            found = self._outer(number)
        return found

    def shape(self, number: int) -> Shape:
        """The shape of a tensor of the variant."""
        return tuple([self.values[text] for text in self.program.tensors[number][1]])

    def strides(self, number: int) -> Shape:
        """Its strides."""
        strides = self.program.tensors[number][2]
        if strides is None:
            return contiguous(self.shape(number))
        values = self.values
        return tuple([values[text] for text in strides])

    def view(self, number: int, storage: Storage, dtype: str) -> Tensor:
        """A tensor of the variant, on a storage."""
        described = self.program.tensors[number]
        values = self.values
        shape = tuple([values[text] for text in described[1]])
        strides = described[2]
        return Tensor(
            storage,
            shape,
            contiguous(shape) if strides is None else tuple([values[text] for text in strides]),
            dtype,
        )

    def _outer(self, number: int) -> Tensor:
        storage_number, _, _, dtype = self.program.tensors[number]
        described = self.program.storages[storage_number]
        storage = self.storages.get(storage_number)
        if storage is None:
            storage = self.storages[storage_number] = Storage(-1, f"outer:{storage_number}")
        tensor = self.view(number, storage, dtype)
        if described[0] == "parameter":
            tensor.parameter = described[2]
            tensor.requires = self.graph is not None and self.weights(described[2]).trainable
        self.tensors[number] = tensor
        return tensor
