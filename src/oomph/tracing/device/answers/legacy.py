"""`torch.cuda.FloatTensor` and its like: types of tensors from before dtypes, which old scripts still call.

Source: torch/csrc/tensor/python_tensor.cpp.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.device.answers.state import State

_DTYPES = {
    "BFloat16Tensor": "bfloat16",
    "BoolTensor": "bool",
    "ByteTensor": "uint8",
    "CharTensor": "int8",
    "DoubleTensor": "float64",
    "FloatTensor": "float32",
    "HalfTensor": "float16",
    "IntTensor": "int32",
    "LongTensor": "int64",
    "ShortTensor": "int16",
}


def install(state: State) -> None:
    """The types of tensors on the GPU."""
    for name, dtype in _DTYPES.items():
        state.replace(state.cuda, **{name: _tensor_type(state, name, getattr(state.torch, dtype))})


def _tensor_type(state: State, name: str, dtype: Any) -> type:
    torch = state.torch

    class TensorType(type):
        """Calling it makes a tensor: empty for sizes, filled for anything else."""

        def __call__(cls, *arguments: Any) -> Any:
            sizes = len(arguments) == 1 and isinstance(arguments[0], torch.Size)
            if sizes or not arguments or all(isinstance(argument, int) for argument in arguments):
                shape = arguments[0] if sizes else arguments or (0,)
                return torch.empty(shape, dtype=dtype, device="cuda")
            return torch.tensor(*arguments, dtype=dtype, device="cuda")

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, torch.Tensor) and instance.is_cuda and instance.dtype == dtype

        def __repr__(cls) -> str:
            return f"<class 'torch.cuda.{name}'>"

    return TensorType(name, (), {"dtype": dtype, "is_cuda": True})
