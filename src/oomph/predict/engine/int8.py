"""Products of LLM.int8(): the input quantised by rows, a product of int8, its int32 result scaled back.

Source: bitsandbytes 0.45 and 0.50, autograd/_functions.py (MatMul8bitLt), backends/cuda/ops.py (int8_vectorwise_quant,
int8_mm_dequant), backends/default/ops.py (int8_mixed_scaled_mm). The input is an attribute of the node: no hook of a
checkpoint sees it, and it lives as long as the graph. Columns of the input with a value of 6.0 or more are multiplied
in the input's dtype beside the rest; which ones depends on the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oomph.errors import UsageError
from oomph.memory.categories import Category
from oomph.predict.engine.graph import Grads, Node
from oomph.predict.engine.heap import ITEM, Heap, Storage, Tensor, contiguous
from oomph.predict.engine.rules.base import first

if TYPE_CHECKING:
    from oomph.predict.engine.scope import Scope, Weight

#: Of so many columns at the most one is taken to have outliers. (The paper finds up to seven of some thousands with
#: systematic ones, arXiv 2208.07339, section 4; a single value of 6.0 is enough for a column.)
COLUMNS_OF_ONE_OUTLIER = 64


def multiply(
    scope: Scope, weight: Weight, numbers: list[int | None], inputs: list[Tensor | None], result: int
) -> None:
    """Input (rows x columns) times the weight; the result is of the input's dtype. Raises UsageError where autocast
    has cast the input of an ordinary layer, which this one would have taken as it was."""
    source, matrix = inputs[-2], inputs[-1]
    assert source is not None
    assert matrix is not None
    widening = scope.widening
    if widening is not None and numbers[-2] in widening.cast:
        raise UsageError(
            "unsupported: LLM.int8() under autocast behind a LayerNorm; `oomph trace` runs the training script itself."
        )
    rows, outputs = source.shape[0], matrix.shape[1]
    outliers = -(-source.shape[1] // COLUMNS_OF_ONE_OUTLIER) if weight.outliers else 0
    half = weight.int8 == "fp16" and source.dtype != "fp32"
    quantised = _quantise(scope.heap, source, half)
    beside, attribute = _beside(scope.heap, source, matrix, outliers)
    made = _product(scope.heap, (rows, outputs), source.dtype, half)
    if outliers:
        # output.addmm: a second result
        again = scope.heap.new(made.shape, made.dtype, "with outliers")
        scope.heap.release(made.storage)
        made = again
    for storage in (*quantised, *beside):
        scope.heap.release(storage)
    _enter(scope, source, matrix, inputs[0] if len(inputs) > 2 else None, made, attribute)
    place = scope.program.tensors[result][0]
    scope.tensors[result], scope.storages[place] = made, made.storage
    scope.ids[id(made.storage)] = place
    if widening is not None and made.dtype == "fp32" != scope.program.tensors[result][3]:
        widening.wide.add(result)


def _quantise(heap: Heap, source: Tensor, half: bool) -> list[Storage]:
    """The input in int8 with a scale for each row, which are returned; it is looked through for outliers first."""
    rows, columns = source.shape
    count = rows * columns

    def temporary(size: int, name: str) -> Storage:
        return heap.allocate(size, name, Category.TEMPORARIES)

    copy = [] if half else [temporary(2 * count, "input in fp16")]
    scales = temporary(4 * rows, "scales of rows")
    made = temporary(count, "input in int8")
    absolute = temporary(2 * count, "absolute values")
    mask = temporary(count, "mask of outliers")
    for each in (absolute, mask, *copy):
        heap.release(each)
    return [made, scales]


def _beside(
    heap: Heap, source: Tensor, matrix: Tensor, outliers: int
) -> tuple[list[Storage], Storage | None]:
    """What outliers are multiplied with: the input's columns (an attribute of the node too), and the weight's, which
    are dequantised in fp32 first."""
    if not outliers:
        return [], None
    part = heap.allocate(source.shape[0] * outliers * ITEM[source.dtype], "columns with outliers")
    count = matrix.shape[1] * outliers
    heap.temporaries([count, 4 * count, 4 * count], "weight of outliers")
    return [
        part,
        heap.allocate(count * ITEM[source.dtype], "weight of outliers", Category.TEMPORARIES),
    ], part


def _product(heap: Heap, shape: tuple[int, int], dtype: str, half: bool) -> Tensor:
    """int32, then fp16, then the input's dtype."""
    count = shape[0] * shape[1]
    whole = heap.allocate(4 * count, "product in int32", Category.TEMPORARIES)
    made = heap.new(shape, dtype if half else "fp16", "product")
    if not half:
        cast = heap.new(shape, dtype, "product")
        heap.release(made.storage)
        made = cast
    heap.release(whole)
    return made


def _enter(
    scope: Scope, source: Tensor, matrix: Tensor, bias: Tensor | None, made: Tensor, part: Storage | None
) -> None:
    graph = scope.graph
    if graph is None:
        if scope.keeps_attributes:
            _attribute(scope, source.storage)
            if part is not None:
                _attribute(scope, part)
        return
    trains = bias is not None and bias.requires
    if not (source.requires or trains):
        return
    node = graph.add("int8 product", [bias, source] if bias is not None else [source], [made])
    if source.requires:
        _attribute(scope, source.storage)
        if part is not None:
            _attribute(scope, part)
    node.metas = [source, matrix]
    node.back = _back


def _attribute(scope: Scope, storage: Storage) -> None:
    """Held as long as the graph. What came into a recomputed layer is held anyway."""
    if storage.number <= 0 or storage in scope.attributes:
        return
    storage.refs += 1
    scope.attributes.append(storage)


def _back(heap: Heap, node: Node, grads: Grads) -> list[Tensor | None]:
    """The input's gradient: the weight is made of int8 once more, in the input's dtype."""
    grad = first(grads)
    source, matrix = node.metas
    assert source is not None
    assert matrix is not None
    found: list[Tensor | None] = []
    if len(node.edges) > 1:
        found.append(None if node.edges[0] is None else heap.view(grad, grad.shape, grad.strides))
    if node.edges[-1] is None:
        return [*found, None]
    size = matrix.shape[0] * matrix.shape[1] * ITEM[source.dtype]
    weight = heap.allocate(size, "dequantised weight", Category.TEMPORARIES)
    found.append(heap.new(source.shape, source.dtype, "", contiguous(source.shape)))
    heap.release(weight)
    return found
