"""Compares what oomph reads of a GPU with what torch, NVML and nvidia-smi say: needs a GPU and a CUDA build of PyTorch.

    python benchmarks/gpu/check_probe.py [--seconds 60]

Checked are: counters and peaks of phases while the script reads and resets its own; what a boundary costs; the
observer of a failed request, history and snapshot; what is outside the allocator and of other processes; that NVML and
nvidia-smi agree; that CUDA's numbers of GPUs are those that `visible` gives; that the CPU device finds the peaks of a
small job that the GPU has. One line each, exit code 1 if any differs. Takes about a minute.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MIB = 1 << 20
BOUNDARY_US = 50.0
NEIGHBOUR = """
import torch
x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
print(1, flush=True)
input()
"""
Result = tuple[bool, str]


def counters(torch: Any) -> Result:
    """Random requests, phases and resets: the script's peaks, the phase's peaks and the counters are what was done."""
    from oomph.probe.cuda import CudaDevice

    rng = random.Random(0)  # noqa: S311 - a sequence, no secret
    device = CudaDevice(0)
    torch.cuda.reset_peak_memory_stats()
    device.begin()
    held: list[Any] = []
    now = torch.cuda.memory_allocated()
    mine = phase = now
    wrong = 0
    for _ in range(3000):
        what = rng.choices(("alloc", "free", "begin", "reset", "compare"), (40, 40, 5, 2, 10))[0]
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
            read = device.read()
            wrong += read.allocated_bytes != now or read.reserved_bytes != torch.cuda.memory_reserved()
            wrong += read.peak_allocated_bytes != phase
            wrong += torch.cuda.max_memory_allocated() != mine
            wrong += torch.cuda.memory_stats()["allocated_bytes.all.peak"] != mine
            wrong += torch.accelerator.max_memory_allocated() != mine if _has_accelerator(torch) else 0
    device.close()
    return wrong == 0, f"{wrong} of about 1500 comparisons differ"


def _has_accelerator(torch: Any) -> bool:
    return hasattr(torch, "accelerator") and hasattr(torch.accelerator, "max_memory_allocated")


def cost(torch: Any) -> Result:
    """A boundary: `read`, then `begin`."""
    from oomph.probe.cuda import CudaDevice

    device = CudaDevice(0)
    torch.empty(MIB, device="cuda")
    found = {}
    for name, function, count in (
        ("read", device.read, 2000),
        ("begin", device.begin, 2000),
        ("whole", device.whole, 20),
    ):
        times = []
        for _ in range(count):
            start = time.perf_counter()
            function()
            times.append(time.perf_counter() - start)
        found[name] = sorted(times)[count // 2] * 1e6
    device.close()
    boundary = found["read"] + found["begin"]
    words = ", ".join(f"{name} {value:.1f} us" for name, value in found.items())
    return boundary < BOUNDARY_US, f"{words}; a boundary is {boundary:.1f} us, {BOUNDARY_US:.0f} allowed"


def from_another_thread(torch: Any) -> Result:
    """Autograd runs backward in a thread of the device; a hook there begins a phase."""
    from oomph.probe.cuda import CudaDevice

    device = CudaDevice(0)
    seen: list[Any] = []

    def hook(_: Any) -> None:
        device.begin()
        seen.append(device.read())

    x = torch.ones(1024, 1024, device="cuda", requires_grad=True)
    y = x * 2
    y.register_hook(hook)
    (y * y).sum().backward()
    device.close()
    return len(seen) == 1 and seen[0].allocated_bytes > 0 and not seen[
        0
    ].missing, f"{len(seen)} reading in the hook"


def failing(torch: Any) -> Result:
    """A request that cannot be served: the observer first, then the exception; then a snapshot that can be read."""
    from oomph import snapshot
    from oomph.probe.cuda import CudaDevice

    device = CudaDevice(0)
    told: list[tuple[int, ...]] = []
    why = device.record_history(10_000)
    device.on_out_of_memory(lambda *numbers: told.append(numbers))
    kept = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    request = torch.cuda.mem_get_info()[1] * 2
    try:
        torch.empty(request, dtype=torch.uint8, device="cuda")
        return False, "a request of twice the card was served"
    except torch.OutOfMemoryError:
        pass
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.pickle"
        why = why or device.dump_snapshot(path)
        report = None if why else snapshot(path)
    torch.cuda.memory._record_memory_history(None)  # noqa: SLF001 - no public name
    ooms, text = device.read().ooms, device.summary()
    device.close()
    good = bool(
        len(told) == 1 and told[0][0] == 0 and told[0][1] >= request and ooms >= 1 and report and kept.numel()
    )
    return good and "CUDA OOMs" in text, f"told {told}, {ooms} failed requests, snapshot {why or 'is read'}"


def shares(torch: Any) -> Result:
    """This process's part outside the allocator, and a neighbour of a gibibyte and its context."""
    from oomph.probe.cuda import CudaDevice

    device = CudaDevice(0)
    torch.empty(MIB, device="cuda")
    before = device.whole()
    with subprocess.Popen(
        [sys.executable, "-c", NEIGHBOUR], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        during = device.whole()
        other.communicate(b"\n")
    device.close()
    free = (before.free_bytes or 0) - (during.free_bytes or 0)
    if before.outside_bytes is None or during.other_processes_bytes is None:
        return (
            free >= 1 << 30,
            f"free fell by {free // MIB} MiB; the rest could not be told: {during.missing}",
        )
    grown = during.other_processes_bytes - (before.other_processes_bytes or 0)
    mib = [size // MIB for size in (before.outside_bytes, grown, free)]
    words = f"outside {mib[0]} MiB, the neighbour {mib[1]} MiB, free fell by {mib[2]} MiB"
    return 0 < before.outside_bytes < 4 << 30 and grown >= 1 << 30 and abs(grown - free) < 64 * MIB, words


def machines(torch: Any) -> Result:
    """NVML and nvidia-smi of the same moment, and CUDA's order."""
    from oomph.probe.machine import NvmlMachine, SmiMachine, visible

    nvml, smi = NvmlMachine().gpus((os.getpid(),)), SmiMachine().gpus((os.getpid(),))
    uuids = [one.uuid for one in nvml if not one.uuid.startswith("MIG-")]
    same = uuids == [one.uuid for one in smi if one.uuid in uuids]
    near = [
        abs((a.used_bytes or 0) - (b.used_bytes or 0)) < 64 * MIB and a.capacity_bytes == b.capacity_bytes
        for a, b in zip(nvml, smi, strict=False)
        if a.uuid == b.uuid
    ]
    seen = visible(nvml, os.environ)
    cuda = [str(torch.cuda.get_device_properties(one).uuid) for one in range(torch.cuda.device_count())]
    ordered = not seen.certain or [one.uuid.partition("-")[2] for one in seen.gpus] == cuda
    ours = [one.pid for gpu in nvml for one in gpu.processes if one.ours]
    missing = {gpu.missing for gpu in nvml if gpu.missing}
    words = (
        f"{len(nvml)} GPUs, order {seen.why or 'as CUDA has it'}, ours {ours}, missing {missing or 'nothing'}"
    )
    return same and all(near) and ordered, words


def against_the_cpu(torch: Any) -> Result:
    """The peaks of the phases of a small job on the GPU, and on the CPU counted as a card."""
    root = str(Path(__file__).resolve().parents[2])
    if root not in sys.path:
        sys.path.insert(0, root)
    from oomph.probe.cpu import CpuDevice
    from oomph.probe.cuda import CudaDevice
    from tests.probe.cpu import job

    found = []
    for device in (CudaDevice(0), CpuDevice()):
        gc.collect()
        torch.cuda.empty_cache()
        start = device.read().allocated_bytes
        peaks: dict[str, int] = {}

        def end(phase: str, device: Any = device, start: int = start, peaks: dict[str, int] = peaks) -> None:
            device.synchronize()
            peaks[phase] = max(peaks.get(phase, 0), device.read().peak_allocated_bytes - start)

        job.train(device.kind, lambda _, device=device: device.begin(), end)
        device.close()
        found.append(peaks)
    cuda, cpu = found
    off = {phase: (cpu[phase] - cuda[phase]) / cuda[phase] for phase in cuda}
    return all([abs(one) < 0.01 for one in off.values()]), ", ".join(f"{k} {v:+.2%}" for k, v in off.items())


CHECKS: tuple[Callable[[Any], Result], ...] = (
    counters,
    cost,
    from_another_thread,
    failing,
    shares,
    machines,
    against_the_cpu,
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="begin no check after so many seconds")
    seconds = parser.parse_args().seconds
    # Read when a handle of cuBLAS is made: the CPU has no like of its workspace.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":16:1")
    os.environ.setdefault("CUBLASLT_WORKSPACE_SIZE", "16")
    import torch

    if not torch.cuda.is_available():
        print("torch.cuda.is_available() is False: this check needs a GPU.", file=sys.stderr)
        return 2
    torch.cuda.init()
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}")
    start, failed = time.monotonic(), 0
    for check in CHECKS:
        if time.monotonic() - start > seconds:
            print(f"left out  {check.__name__}: out of time")
            failed += 1
            continue
        try:
            good, words = check(torch)
        except Exception as error:  # noqa: BLE001 - the other checks still count
            good, words = False, f"{type(error).__name__}: {error}"
        failed += not good
        print(f"{'same' if good else 'DIFFERS'}  {check.__name__}: {words}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
