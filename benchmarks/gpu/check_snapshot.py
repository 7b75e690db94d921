"""Real snapshots of a GPU with known truth, against what `oomph snapshot` says: needs a CUDA build of PyTorch.

    python benchmarks/gpu/check_snapshot.py [--gib 4] [--keep FOLDER]

Each scene runs in a process of its own, capped at `--gib`, and dumps a snapshot. Checked are: the exact replay of the
trace, the bytes of parameters, gradients and AdamW's states against the model's own sums, the number of steps, a leak's
bytes per step, and the verdict of a failure (a cap here, since the card itself is not filled). About two minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MIB = 1 << 20
STEPS = 8


def train(torch: Any, *, leak: bool = False, graphs: bool = False) -> tuple[Any, list[Any]]:
    """Eight steps of AdamW on a model of 4 x (2048 x 2048) parameters in fp32; the kept outputs with `leak`."""
    model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(4))).cuda()
    if graphs:
        model = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters())
    kept = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        output = model(torch.randn(512, 2048, device="cuda"))
        output.square().mean().backward()
        optimizer.step()
        if leak:
            kept.append(output.detach().clone())
    return model, kept


def scene_steady(torch: Any) -> Any:
    return train(torch)


def scene_leak(torch: Any) -> Any:
    return train(torch, leak=True)


def scene_graphs(torch: Any) -> Any:
    return train(torch, graphs=True)


def scene_capped(torch: Any) -> Any:
    model, _ = train(torch)
    blocks = []
    try:
        while True:
            blocks.append(torch.empty(256 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        return model, blocks


SCENES: dict[str, Callable[[Any], Any]] = {
    "steady": scene_steady,
    "leak": scene_leak,
    "graphs": scene_graphs,
    "capped": scene_capped,
}


def record(name: str, gib: int, path: Path) -> None:
    """Runs one scene and dumps its snapshot."""
    import torch

    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(0.95, gib * 1024 * MIB / total), 0)
    torch.cuda.memory._record_memory_history(max_entries=1_000_000)  # noqa: SLF001 - no public name
    alive = SCENES[name](torch)
    torch.cuda.memory._dump_snapshot(str(path))  # noqa: SLF001
    del alive


def complaints(name: str, path: Path) -> Iterator[str]:
    """What `oomph` says wrongly about the scene."""
    import oomph
    from oomph.evidence.snapshot import allocator_settings, read
    from oomph.memory.replay import exact

    content = read(path)
    device = content.devices[0]
    replay = exact(device.segments, device.timeline, allocator_settings(content))
    if not replay.exact:
        yield f"the replay is not exact: {replay.misses or 'no addresses differ'}"
    report = oomph.snapshot(path, at="end" if name != "capped" else None)
    found = report.devices[report.shown]
    sizes = {str(share.category): share.bytes for share in found.shares}
    parameters = 4 * (2048 * 2048 + 2048) * 4
    for category, expected in (
        ("parameters", parameters),
        ("gradients", parameters),
        ("optimizer state", 2 * parameters),
    ):
        # Biases are rounded up to 512 bytes, AdamW keeps a step counter for each tensor.
        if abs(sizes.get(category, 0) - expected) > 64 * 1024:
            yield f"{category}: {sizes.get(category, 0):,} bytes, expected about {expected:,}"
    if found.steps is None or found.steps.count != STEPS:
        yield f"steps: {found.steps}"
    per_step = found.growth.bytes_per_step if found.growth is not None else -1
    if per_step != (512 * 2048 * 4 if name == "leak" else 0):
        yield f"growth: {per_step:,} bytes per step"
    verdict = str(found.failure.verdict) if found.failure is not None else None
    if verdict != ("capped" if name == "capped" else None):
        yield f"verdict: {verdict}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gib", type=int, default=4)
    parser.add_argument("--keep", type=Path, help="keep the snapshots in this folder")
    parser.add_argument("--record", nargs=2, metavar=("SCENE", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        record(options.record[0], options.gib, Path(options.record[1]))
        return 0
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        for name in SCENES:
            path = folder / f"{name}.pickle"
            command = [sys.executable, __file__, "--gib", str(options.gib), "--record", name, str(path)]
            if subprocess.run(command, check=False).returncode:
                print(f"{name}: could not be recorded")
                wrong += 1
                continue
            found = list(complaints(name, path))
            wrong += bool(found)
            print(f"{name}: {'; '.join(found) or 'as it is'}")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
