"""Writes down every operator of a forward pass on the simulated GPU, and when each storage dies."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from oomph.tracing.programs.errors import ProgramError

_NUMBER = "_oomph_program_number"
DTYPES = {
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float64": "fp64",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "uint64": "int64",
    # Pairs of fp32; programs have no complex numbers.
    "complex64": "fp64",
}


@dataclass
class Storage:
    """Bytes that tensors lie on. kind: own, input, parameter, buffer, host."""

    kind: str
    size_bytes: int
    name: str = ""


@dataclass
class Tensor:
    """A tensor as it was when it was first seen. `storage` is a number."""

    storage: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


@dataclass
class Ref:
    """A tensor among an operator's arguments."""

    number: int


@dataclass
class Op:
    """One operator. `results` has None where it returned no tensor."""

    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    results: list[int | None]


@dataclass
class Drop:
    """The last reference to a storage ended. `previous`: to that storage of the layer before."""

    storage: int
    previous: bool = False


@dataclass
class Mark:
    """A place between sections: `name` as the cutting gave it, `tensor` what passes there."""

    name: str
    tensor: int | None = None


Item = Op | Drop | Mark


@dataclass
class Run:
    """One forward pass. `kept` are tensors by name that the caller holds afterwards."""

    dimensions: Mapping[str, int]
    storages: list[Storage] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)


class Watch:
    """Fills a Run. `mode()` is the dispatch mode, to be pushed inside a Session."""

    def __init__(self, dimensions: Mapping[str, int]) -> None:
        self.run = Run(dict(dimensions))
        self.paused = 0
        #: Casts of weights that train want gradients, although nothing is recorded of them: products of tensors with
        #: three dimensions go another way then (aten/src/ATen/native/LinearAlgebra.cpp, should_fold).
        self.trains = False
        self._closed = False
        self._held: dict[int, tuple[int, weakref.ref[Any]]] = {}

    def mode(self) -> Any:
        """The dispatch mode that sees every operator."""
        return _mode_class()(self)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Operators inside are not written down; storages that die are."""
        self.paused += 1
        try:
            yield
        finally:
            self.paused -= 1

    # -- what is there --------------------------------------------------------------------------------------------

    def module(self, net: Any) -> None:
        """Names the storages of parameters, of buffers, and of tensors that modules have as plain attributes."""
        import torch

        for kind, named in (("parameter", net.named_parameters()), ("buffer", net.named_buffers())):
            for name, tensor in named:
                self._storage(tensor, kind, name)
        for prefix, module in net.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, torch.Tensor):
                    self._storage(value, "buffer", f"{prefix}.{name}".removeprefix("."))

    def inputs(self, tensors: Mapping[str, Any]) -> None:
        """Names tensors of a batch."""
        for name, tensor in tensors.items():
            self._storage(tensor, "input", name)

    def _storage(self, tensor: Any, kind: str, name: str = "") -> int:
        storage = tensor.untyped_storage()
        key = storage._cdata  # noqa: SLF001 - torch's own name for a storage's identity
        if key in self._held:
            return self._held[key][0]
        number = len(self.run.storages)
        if kind == "own" and tensor.device.type != "cuda":
            kind = "host"
        self.run.storages.append(Storage(kind, int(storage.nbytes()), name))

        def gone(_: object) -> None:
            self._held.pop(key, None)
            if not self._closed:
                self.run.items.append(Drop(number))

        self._held[key] = (number, weakref.ref(storage, gone))
        return number

    def number(self, tensor: Any) -> int:
        """The number of a tensor; a new one when it was not seen, or is not what it was."""
        storage = self._storage(tensor, "own")
        now = Tensor(
            storage,
            tuple(int(size) for size in tensor.shape),
            tuple(int(stride) for stride in tensor.stride()),
            dtype_name(tensor.dtype),
        )
        known = tensor.__dict__.get(_NUMBER)
        if known is not None and known[0] is self and self.run.tensors[known[1]] == now:
            return int(known[1])
        self.run.tensors.append(now)
        tensor.__dict__[_NUMBER] = (self, len(self.run.tensors) - 1)
        return len(self.run.tensors) - 1

    # -- what happens ---------------------------------------------------------------------------------------------

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any) -> None:
        """An operator ran."""
        import torch

        outs = list(out) if isinstance(out, (list, tuple)) else [out]
        results = [one for one in outs if isinstance(one, torch.Tensor)]
        if not results or not any(
            _on_gpu(one) for one in (*results, *_tensors(args), *_tensors(kwargs.values()))
        ):
            return
        item = Op(
            f"{func.namespace}.{func._schema.name.partition('::')[2]}."  # noqa: SLF001 - the only way to the schema
            f"{func._schema.overload_name or 'default'}",  # noqa: SLF001
            [self._argument(one) for one in args],
            {name: self._argument(one) for name, one in kwargs.items()},
            [],
        )
        item.results = [self.number(one) if isinstance(one, torch.Tensor) else None for one in outs]
        if "efficient_attention" in item.name:
            self._unrounded(item.results[1], int(args[0].shape[2]))
        self.run.items.append(item)

    def _unrounded(self, number: int | None, rows: int) -> None:
        """Memory-efficient attention rounds the rows of its sums up to 32; a program has them as they are, and the
        operator's rule rounds."""
        if number is not None:
            tensor = self.run.tensors[number]
            tensor.shape = (*tensor.shape[:2], rows)
            tensor.strides = (tensor.shape[1] * rows, rows, 1)
            self.run.storages[tensor.storage].size_bytes = 4 * tensor.shape[0] * tensor.shape[1] * rows

    def made_up(
        self, name: str, args: list[Any], kwargs: dict[str, Any], out: Any, hidden: list[Tensor]
    ) -> None:
        """An operator of a library that has no ATen name. `hidden` are results that nobody holds: their `storage` is
        the bytes that each takes."""
        item = Op(name, [self._argument(one) for one in args], kwargs, [self.number(out)])
        self.run.items.append(item)
        for one in hidden:
            self.run.storages.append(Storage("own", one.storage))
            number = len(self.run.storages) - 1
            self.run.tensors.append(Tensor(number, one.shape, one.strides, one.dtype))
            item.results.append(len(self.run.tensors) - 1)
            self.run.items.append(Drop(number))

    def mark(self, name: str, tensor: Any = None) -> None:
        """A section begins or ends here, and this tensor passes."""
        self.run.items.append(Mark(name, None if tensor is None else self.number(tensor)))

    def would_train(self, source: Any, cast: Any) -> bool:
        """Whether a cast would want a gradient in training: it is one of a weight or of a part of one."""
        known = self._held.get(source.untyped_storage()._cdata)  # noqa: SLF001 - as in _storage
        weight = known is not None and self.run.storages[known[0]].kind == "parameter"
        return self.trains and weight and bool(cast.is_floating_point())

    def sort(self, begin: int) -> None:
        """The drops from item `begin` on are put in order of their storages."""
        drops = [item for item in self.run.items[begin:] if isinstance(item, Drop)]
        drops.sort(key=lambda drop: drop.storage)
        self.run.items[begin:] = drops

    def close(self) -> None:
        """What dies from now on dies because the recording ends."""
        self._closed = True

    def _argument(self, value: Any) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            if _on_gpu(value) and value.untyped_storage()._cdata not in self._held:  # noqa: SLF001
                raise ProgramError("a tensor is used that was there before and that no module has")
            return Ref(self.number(value))
        if isinstance(value, (list, tuple)):
            return [self._argument(one) for one in value]
        if isinstance(value, torch.dtype):
            return dtype_name(value)
        if isinstance(value, torch.device):
            return value.type
        if isinstance(value, (torch.layout, torch.memory_format)):
            return str(value).removeprefix("torch.")
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, torch.Generator):
            return None
        raise ProgramError(f"an operator takes a {type(value).__name__}, which programs have no form for")


def dtype_name(dtype: Any) -> str:
    """A dtype as programs write it: bf16, fp32, int64."""
    text = str(dtype).removeprefix("torch.")
    return DTYPES.get(text, text)


def _on_gpu(tensor: Any) -> bool:
    return bool(tensor.device.type == "cuda")


def _tensors(values: Any) -> Iterator[Any]:
    import torch

    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


@cache
def _mode_class() -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    cast = torch.ops.aten._to_copy.default  # noqa: SLF001 - its name
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention.default  # noqa: SLF001 - its name
    grouped = getattr(getattr(torch.ops.aten, "_grouped_mm", None), "default", None)

    class WatchMode(TorchDispatchMode):
        """On top of the recorder's mode, which it passes everything on to."""

        def __init__(self, watch: Watch) -> None:
            super().__init__()
            self.watch = watch

        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            del types
            kwargs = kwargs or {}
            if func is efficient:
                # Without gradients it would leave out what backward needs of it.
                args = (*args[:4], True, *args[5:])
            if func is grouped and args[0].dtype != torch.bfloat16:
                # The fake kernel refuses what the CUDA one computes group by group (cuda/GroupedBlas.cpp).
                with self.watch.pause(), self:
                    out = args[0].new_empty((args[0].shape[0], args[1].shape[2]))
            else:
                out = func(*args, **kwargs)
            if func is cast and self.watch.would_train(args[0], out):
                out.requires_grad_(True)
            if not self.watch.paused:
                self.watch.operator(func, args, kwargs, out)
            return out

    return WatchMode
