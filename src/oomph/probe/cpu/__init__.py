"""The CPU as if it were a card: PyTorch's caching allocator, simulated, under the tensors that a process really has.

`device.py` has the `Device`, `card.py` the accounting, `mode.py` how allocations are noticed, `storages.py` which
storage holds which block, `snapshot.py` what is written of it. docs/runs.md, "What is read of a device", says what the
numbers mean and where they differ from a GPU's.
"""

from __future__ import annotations

from oomph.probe.cpu.device import CpuDevice

__all__ = ["CpuDevice"]
