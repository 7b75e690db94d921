"""Storages and tensors of a played program: who holds which bytes, and in which order they come and go."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from oomph.memory.categories import Category
from oomph.predict.sink import rounded

#: Bytes of one element by the name of its dtype, as programs write it.
ITEM = {
    "fp32": 4,
    "bf16": 2,
    "fp16": 2,
    "fp64": 8,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
    "fp8": 1,
}
_ORDER = ("bool", "uint8", "int8", "int16", "int32", "int64", "fp8", "fp16", "bf16", "fp32", "fp64")
_RANK = {name: place for place, name in enumerate(_ORDER)}

Shape = tuple[int, ...]


class Storage:
    """Bytes with a count of holders. `number` is that of the block in the heap's log; -1 for what the log does not
    have: parameters, and whatever is alive before and after."""

    __slots__ = ("carries", "name", "number", "refs")

    def __init__(self, number: int, name: str = "") -> None:
        self.number = number
        self.refs = 1
        self.name = name
        #: What a tensor that is fused into its reader will be made from (torch.compile).
        self.carries: tuple[Storage, ...] = ()


class Tensor:
    """A view of a storage. `node` made it (None: a leaf), as that node's result `index`."""

    __slots__ = ("dtype", "index", "looks", "node", "parameter", "requires", "shape", "storage", "strides")

    def __init__(self, storage: Storage, shape: Shape, strides: Shape, dtype: str) -> None:
        self.storage = storage
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.requires = False
        self.node: object = None
        self.index = 0
        self.parameter = ""
        #: A view of another tensor, which it keeps alive: nothing is added to it in place.
        self.looks = False

    @property
    def bytes(self) -> int:
        """What its elements take, were they alone."""
        return numel(self.shape) * ITEM[self.dtype]


def numel(shape: Shape) -> int:
    """The number of elements."""
    count = 1
    for size in shape:
        count *= size
    return count


@lru_cache(maxsize=16384)
def contiguous(shape: Shape) -> Shape:
    """Row-major strides."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(1, shape[dim + 1])
    return tuple(strides)


def promote(*dtypes: str) -> str:
    """The dtype of a result of tensors of these dtypes (c10/core/ScalarType.h, for the types that training uses)."""
    return max(dtypes, key=_RANK.__getitem__)


class Heap:
    """The log of one played piece: `events` has n for an allocation and ~n for a free; `sizes` by number, rounded."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.sizes: list[int] = []
        self.labels: list[tuple[Category, str]] = []
        self.category = Category.ACTIVATIONS
        self.where = ""
        #: A recomputation has ended early: nothing is allocated any more.
        self.stopped = False

    def hand_in(self, size_bytes: int, name: str = "") -> Storage:
        """A block that is there before the piece runs."""
        self.sizes.append(rounded(size_bytes))
        self.labels.append((Category.ACTIVATIONS, name))
        return Storage(len(self.sizes) - 1, name)

    def allocate(self, size_bytes: int, name: str = "", category: Category | None = None) -> Storage:
        """A new block with one holder."""
        if size_bytes <= 0 or self.stopped:
            return Storage(-1, name)
        number = len(self.sizes)
        self.sizes.append(rounded(size_bytes))
        self.labels.append((category or self.category, name or self.where))
        self.events.append(number)
        return Storage(number, name or self.where)

    def hand_nothing(self, name: str = "") -> Storage:
        """What the log does not have."""
        return Storage(-1, name)

    def release(self, storage: Storage) -> None:
        """One holder less; the last one frees the block."""
        storage.refs -= 1
        if storage.refs == 0 and storage.number >= 0:
            self.events.append(~storage.number)
        elif storage.refs == 0 and storage.carries:
            carried, storage.carries = storage.carries, ()
            for each in carried:
                self.release(each)
        elif storage.refs < 0 and storage.number >= 0:
            raise RuntimeError(f"a block of {storage.name!r} is freed twice")

    def new(self, shape: Shape, dtype: str, name: str = "", strides: Shape | None = None) -> Tensor:
        """A new dense tensor; row-major unless strides are given."""
        storage = self.allocate(numel(shape) * ITEM[dtype], name)
        return Tensor(storage, shape, strides or contiguous(shape), dtype)

    def view(self, tensor: Tensor, shape: Shape, strides: Shape) -> Tensor:
        """Another tensor of the same storage, which it holds."""
        tensor.storage.refs += 1
        made = Tensor(tensor.storage, shape, strides, tensor.dtype)
        made.looks = True
        return made

    def temporaries(self, sizes: Sequence[int], name: str = "") -> None:
        """Blocks that exist together for a moment."""
        held = [self.allocate(size, name, Category.TEMPORARIES) for size in sizes if size > 0]
        for storage in held:
            self.release(storage)


def view_strides(shape: Shape, strides: Shape, wanted: Shape) -> Shape | None:
    """Strides of the view of another shape, None where a copy is needed (ATen's computeStride)."""
    if numel(shape) == 0:
        return contiguous(wanted)
    result = [0] * len(wanted)
    view_dim = len(wanted) - 1
    base = strides[-1] if strides else 1
    chunk, view_chunk = 1, 1
    for dim in range(len(shape) - 1, -1, -1):
        chunk *= shape[dim]
        if dim == 0 or (shape[dim - 1] != 1 and strides[dim - 1] != chunk * base):
            while view_dim >= 0 and (view_chunk < chunk or wanted[view_dim] == 1):
                result[view_dim] = view_chunk * base
                view_chunk *= wanted[view_dim]
                view_dim -= 1
            if view_chunk != chunk:
                return None
            if dim > 0:
                base = strides[dim - 1]
                chunk, view_chunk = 1, 1
    return tuple(result) if view_dim == -1 else None


def is_dense(tensor: Tensor) -> bool:
    """Whether no element is skipped or shared (non-overlapping and dense)."""
    if tensor.strides == contiguous(tensor.shape):
        return 0 not in tensor.shape or _is_dense_in_order(tensor)
    return _is_dense_in_order(tensor)


def _is_dense_in_order(tensor: Tensor) -> bool:
    expected = 1
    for stride, size in sorted(zip(tensor.strides, tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def same_order(shape: Shape, strides: Shape) -> Shape:
    """Dense strides whose dimensions are ordered as these are: what TensorIterator gives its result."""
    order = sorted(range(len(shape)), key=lambda dim: (-strides[dim] if shape[dim] != 1 else 0, dim))
    # Dimensions of one element take part in no order: they keep their place among the rest.
    if all(strides[dim] or shape[dim] == 1 for dim in range(len(shape))):
        result = [1] * len(shape)
        step = 1
        for dim in reversed([dim for dim in order if shape[dim] != 1]):
            result[dim] = step
            step *= shape[dim]
        for dim in range(len(shape) - 1, -1, -1):
            if shape[dim] == 1:
                result[dim] = result[dim + 1] * shape[dim + 1] if dim + 1 < len(shape) else 1
        return tuple(result)
    return contiguous(shape)
