"""The usual mistakes in the words that a GPU has for them: shapes that do not fit, tensors on two devices.

Fake kernels notice them too, and call them by names that no search finds. Sources, in aten/src/ATen:
native/LinearAlgebra.cpp (addmm, mm), native/Blas.cpp (addmv), ExpandUtils.cpp (infer_size_impl), TensorIterator.cpp
(compute_types) and core/adaption.cpp (common_device_check_failure), which got other words with PyTorch 2.8.
"""

from __future__ import annotations

from typing import Any

#: Operators whose CUDA entry checks the devices of its arguments one by one, with the name of that entry: structured
#: kernels have one underscore less. All others leave it to TensorIterator.
_ENTRIES = {
    "aten.mm": "wrapper_CUDA_mm",
    "aten.addmm": "wrapper_CUDA_addmm",
    "aten.bmm": "wrapper_CUDA_bmm",
    "aten.baddbmm": "wrapper_CUDA_baddbmm",
    "aten.index_select": "wrapper_CUDA__index_select",
    "aten.embedding": "wrapper_CUDA__index_select",
    "aten.nll_loss_forward": "wrapper_CUDA_nll_loss_forward",
    "aten.native_layer_norm": "wrapper_CUDA__native_layer_norm",
    "aten.gather": "wrapper_CUDA_gather",
}
_PRODUCTS = frozenset({"aten.mm", "aten.addmm", "aten.addmv", "aten.mv"})


def as_on_gpu(func: Any, args: tuple[Any, ...], error: RuntimeError) -> RuntimeError | None:
    """What a GPU would raise in place of a fake kernel's error; None where that is said well already."""
    name = func._schema.name.replace("::", ".")  # noqa: SLF001 - the only way to the schema
    text = None
    if type(error).__name__ == "FakeTensorDeviceMismatchError" or "found two different devices" in str(error):
        text = _devices(name, _tensors(func, args))
    elif name in _PRODUCTS:
        text = _product(name, [one.shape for _, one in _tensors(func, args)])
    elif "broadcast" in str(error):
        text = _broadcast([one.shape for _, one in _tensors(func, args)])
    return None if text is None else RuntimeError(text)


def _tensors(func: Any, args: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Tensors among the arguments, with their names in the schema."""
    names = [one.name for one in func._schema.arguments]  # noqa: SLF001 - the only way to the schema
    return [
        (name, one)
        for name, one in zip(names, args, strict=False)
        if hasattr(one, "untyped_storage") and hasattr(one, "shape")
    ]


def _devices(name: str, tensors: list[tuple[str, Any]]) -> str | None:
    where = [(key, str(getattr(one, "fake_device", one.device)), one.dim()) for key, one in tensors]
    entry = _ENTRIES.get(name)
    start = "Expected all tensors to be on the same device, but "
    if entry is not None:
        common = where[0][1]
        for key, device, _ in where:
            if device != common:
                key = "index" if name == "aten.embedding" else key
                return start + _checked(key, device, common, entry)
        return None
    # TensorIterator counts from the first that is not on the host, and lets numbers be.
    devices = list(dict.fromkeys(device for _, device, dim in where if device != "cpu" or dim))
    devices.sort(key=lambda device: device == "cpu")
    return f"{start}found at least two devices, {devices[0]} and {devices[1]}!" if len(devices) > 1 else None


def _checked(argument: str, device: str, common: str, entry: str) -> str:
    import torch

    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version >= (2, 8):
        return (
            f"got {argument} is on {device}, different from other tensors on {common} "
            f"(when checking argument in method {entry})"
        )
    return (
        f"found at least two devices, {common} and {device}! "
        f"(when checking argument for argument {argument} in method {entry})"
    )


def _product(name: str, shapes: list[Any]) -> str | None:
    if name in ("aten.mm", "aten.addmm"):
        one, other = shapes[-2:]
        if len(one) == len(other) == 2 and one[1] != other[0]:
            sizes = f"{one[0]}x{one[1]} and {other[0]}x{other[1]}"
            return f"mat1 and mat2 shapes cannot be multiplied ({sizes})"
        return None
    matrix, vector = shapes[-2:]
    if len(matrix) == 2 and len(vector) == 1 and matrix[1] != vector[0]:
        into = shapes[0][0] if name == "aten.addmv" and shapes[0] else matrix[0]
        return f"size mismatch, got input ({into}), mat ({matrix[0]}x{matrix[1]}), vec ({vector[0]})"
    return None


def _broadcast(shapes: list[Any]) -> str | None:
    """The first pair of sizes, from the last dimension on, that go with one another in no way."""
    so_far: list[int] = []
    for shape in shapes:
        dims = max(len(so_far), len(shape))
        a = [1] * (dims - len(so_far)) + so_far
        b = [1] * (dims - len(shape)) + list(shape)
        for place in reversed(range(dims)):
            if a[place] != b[place] and 1 not in (a[place], b[place]):
                return (
                    f"The size of tensor a ({a[place]}) must match the size of tensor b ({b[place]}) "
                    f"at non-singleton dimension {place}"
                )
        so_far = [y if x == 1 else x for x, y in zip(a, b, strict=True)]
    return None


def convolution(
    _mode: Any, _func: Any, _operator: Any, _types: Any, args: tuple[Any, ...], _kwargs: Any
) -> Any:
    """A handler that lets convolutions pass whose weight is of the input's type, as
    aten/src/ATen/native/Convolution.cpp does (check_input_same_type_as_parameters). Fake kernels do not look.

    Raises:
        RuntimeError: it is not.
    """
    one, other = _kind(args[0]), _kind(args[1])
    if one == other:
        return NotImplemented
    raise RuntimeError(f"Input type ({_type(one)}) and weight type ({_type(other)}) should be the same")


def _kind(tensor: Any) -> tuple[str, str]:
    return getattr(tensor, "fake_device", tensor.device).type, str(tensor.dtype).removeprefix("torch.")


def _type(kind: tuple[str, str]) -> str:
    """The old name of a type of tensors, which the messages use."""
    device, dtype = kind
    named = {
        "float32": "Float",
        "float64": "Double",
        "float16": "Half",
        "bfloat16": "BFloat16",
        "uint8": "Byte",
    }
    named |= {"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "bool": "Bool"}
    named |= {"complex64": "ComplexFloat", "complex128": "ComplexDouble"}
    return f"torch.{'cuda.' if device == 'cuda' else ''}{named.get(dtype, dtype)}Tensor"
