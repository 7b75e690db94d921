"""The shapes of a batch: what a model's forward is given."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

#: A batch of more tensors than this is told by its first ones.
MOST = 32
Shapes = dict[str, tuple[int, ...]]


class Signature:
    """Names of a module's positional arguments, looked up once."""

    def __init__(self, module: Any) -> None:
        self._names: tuple[str, ...] = ()
        inner: Any = getattr(module, "module", None)
        original: Any = getattr(module, "_orig_mod", None)
        for one in (original, module, inner):  # a compiled module's forward takes anything, DDP's *inputs
            try:
                parameters = inspect.signature(one.forward).parameters.values()
            except (AttributeError, TypeError, ValueError):
                continue
            kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            names = tuple(parameter.name for parameter in parameters if parameter.kind in kinds)
            if names:
                self._names = names
                break

    def shapes(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Shapes:
        """The shapes of all tensors in the arguments; what is no tensor has none."""
        found: Shapes = {}
        for position, value in enumerate(args):
            name = self._names[position] if position < len(self._names) else f"arg{position}"
            _collect(name, value, found, 0)
        for name, value in kwargs.items():
            _collect(name, value, found, 0)
        return found


def _collect(name: str, value: Any, found: Shapes, depth: int) -> None:
    if value is None or isinstance(value, (bool, int, float, str)) or len(found) >= MOST:
        return
    shape = getattr(value, "shape", None)
    if shape is not None:
        try:
            sizes = tuple(int(size) for size in shape)
        except (TypeError, ValueError, RuntimeError):
            return  # nested tensors and symbolic sizes
        if sizes:  # a number is no part of the batch
            found[name] = sizes
        return
    if depth >= 2:
        return
    if isinstance(value, Mapping):
        for key, one in value.items():
            _collect(f"{name}.{key}" if depth or name.startswith("arg") else str(key), one, found, depth + 1)
    elif isinstance(value, (list, tuple)):
        for position, one in enumerate(value[:MOST]):
            _collect(f"{name}.{position}", one, found, depth + 1)


def elements(shapes: Shapes) -> int:
    """Elements of the largest tensor of the batch: its tokens, for a language model."""
    largest = 0
    for shape in shapes.values():
        count = 1
        for size in shape:
            count *= size
        largest = max(largest, count)
    return largest


def main_shape(shapes: Shapes) -> tuple[int, ...]:
    """The shape that tells the batch's size best: of token ids where there are such, else of the largest tensor."""
    for name in ("input_ids", "inputs_embeds", "pixel_values"):
        for key, shape in shapes.items():
            if key == name or key.endswith(f".{name}"):
                return shape
    best: tuple[int, ...] = ()
    size = -1
    for shape in shapes.values():
        count = elements({"": shape})
        if count > size:
            best, size = shape, count
    return best


def of_values(value: object) -> Shapes:
    """The shapes of a batch that is given by itself: a tensor, or a table or list of them."""
    found: Shapes = {}
    if isinstance(value, Mapping):
        for key, one in value.items():
            _collect(str(key), one, found, 0)
    else:
        _collect("batch", value, found, 0)
    return found
