"""Traced by `test_traced.py`: all of torch.cuda's own Python code, over a device that is not there."""

import random
import sys

import torch

from oomph.probe.cuda import CudaDevice

MIB = 1 << 20


def main():
    rng = random.Random(3)
    early = CudaDevice()
    device = CudaDevice(0)
    assert device.limits == ()
    held = []
    now = mine = phase = torch.cuda.memory_allocated()
    compared = 0
    for _ in range(600):
        what = rng.choices(("alloc", "free", "begin", "reset", "compare"), (40, 40, 8, 4, 10))[0]
        if what == "alloc":
            held.append(torch.empty(rng.randrange(1, 8 * MIB), dtype=torch.uint8, device="cuda"))
        elif what == "free" and held:
            held.pop(rng.randrange(len(held)))
        elif what == "begin":
            device.begin()
            phase = now
        elif what == "reset":
            torch.cuda.reset_peak_memory_stats()
            mine = now
        now = torch.cuda.memory_allocated()
        mine, phase = max(mine, now), max(phase, now)
        if what == "compare":
            compared += 1
            read = device.read()
            assert read.allocated_bytes == now
            assert read.reserved_bytes == torch.cuda.memory_reserved()
            assert read.peak_allocated_bytes == phase
            assert torch.cuda.max_memory_allocated() == mine
            assert torch.cuda.memory_stats("cuda:0")["allocated_bytes.all.peak"] == mine
            assert torch.accelerator.max_memory_allocated() == mine
    whole = device.whole()
    assert whole.total_bytes is not None
    assert whole.free_bytes is not None
    assert early.index == 0
    assert early.read().allocated_bytes == now
    assert "memory summary" in device.summary()
    early.close()
    device.close()
    sys.stdout.write(f"compared {compared} times\n")


if __name__ == "__main__":
    main()
