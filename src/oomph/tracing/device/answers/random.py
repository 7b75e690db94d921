"""Random numbers: generators on the GPU, whose state is a seed and an offset.

A generator that stands in is one of the CPU underneath, which is never drawn from: random operators on fake tensors
give no numbers. Source: torch/cuda/random.py; 16 bytes of state are those of CUDAGeneratorImpl
(aten/src/ATen/cuda/CUDAGeneratorImpl.cpp).
"""

from __future__ import annotations

import os
from typing import Any

from oomph.tracing.device.answers.state import State, front

#: default_rng_seed_val of c10/core/GeneratorImpl.h.
_DEFAULT_SEED = 67280421310721
_STATE_BYTES = 16


def install(state: State) -> None:
    """`torch.Generator(device="cuda")` and the default generators of the devices."""
    recorder, cuda, torch = state.recorder, state.cuda, state.torch
    real = torch.Generator
    generator_class = _generator_class(state, real)
    defaults = tuple(generator_class(index) for index in range(state.count))

    def make(real: Any, device: Any = "cpu") -> Any:
        wanted = torch.device(device)
        if wanted.type != "cuda":
            return real(device=wanted)
        return generator_class(state.checked(state.current if wanted.index is None else wanted.index))

    recorder.patches.set(torch, "Generator", front(real, make))
    recorder.patches.set(cuda, "default_generators", defaults)


def _generator_class(state: State, real: Any) -> type[Any]:
    torch = state.torch

    class CudaGenerator(real):
        """A generator of a simulated device."""

        def __new__(cls, index: int) -> Any:
            self = super().__new__(cls)
            self._index = index
            self._seed = _DEFAULT_SEED
            self._offset = 0
            return self

        def __init__(self, *_: object) -> None:
            pass

        @property
        def device(self) -> Any:
            return torch.device("cuda", self._index)

        def manual_seed(self, seed: int) -> Any:
            self._seed = int(seed) & (2**64 - 1)
            self._offset = 0
            return self

        def seed(self) -> int:
            self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 11)
            return int(self._seed)

        def initial_seed(self) -> int:
            return int(self._seed)

        def get_offset(self) -> int:
            return int(self._offset)

        def set_offset(self, offset: int) -> None:
            self._offset = int(offset)

        def get_state(self) -> Any:
            """A tensor of bytes on the CPU, as from a GPU."""
            content = self._seed.to_bytes(8, "little") + self._offset.to_bytes(8, "little")
            return torch.tensor(list(content), dtype=torch.uint8, device="cpu")

        def set_state(self, new_state: Any) -> Any:
            if new_state.numel() not in (_STATE_BYTES, 8):
                raise RuntimeError("RNG state is wrong size")
            content = bytes(new_state.tolist()).ljust(_STATE_BYTES, b"\0")
            self._seed = int.from_bytes(content[:8], "little")
            self._offset = int.from_bytes(content[8:], "little")
            return self

        graphsafe_get_state = get_state
        graphsafe_set_state = set_state

        def clone_state(self) -> Any:
            return type(self)(self._index).set_state(self.get_state())

    return CudaGenerator
