"""Run directories written record by record: what a job of arithmetic would have left behind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from oomph.evidence.run.model import (
    FINGERPRINT,
    RANKS,
    RUN,
    VERSION,
    End,
    Fingerprint,
    Header,
    Note,
    OomRecord,
    PhaseRecord,
    Record,
    Run,
    StepRecord,
    rank_name,
)
from oomph.phases import Phase
from oomph.probe.model import Counters

GIB = 1 << 30
#: A day in November 2026.
START = 1_795_000_000.0

#: Of a job that trains 1 GiB of parameters with AdamW (2 GiB of state) and keeps 1 GiB of activations per sample.
SETTINGS: dict[str, str] = {
    "versions.torch": "2.6.0+cu124",
    "versions.transformers": "4.48.1",
    "versions.peft": "0.14.0",
    "versions.driver": "550.54.15",
    "gpu.name": "NVIDIA A100-SXM4-40GB",
    "machine.type": "a2-highgpu-8g",
    "environment.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "environment.NCCL_BUFFSIZE": "4194304",
    "environment.WORLD_SIZE": "2",
    "arguments.per_device_train_batch_size": "4",
    "arguments.gradient_accumulation_steps": "1",
    "arguments.learning_rate": "0.0001",
    "arguments.optim": "adamw_torch",
    "arguments.gradient_checkpointing": "False",
    "arguments.bf16": "True",
    "arguments.max_seq_length": "2048",
    "data.fingerprint": "7a1c0d5f2b9e4c61",
    "git.commit": "0123456789abcdef0123456789abcdef01234567",
    "git.dirty": "no",
    "model.id": "org/decoder-250m",
    "model.parameters": "268435456",
    "model.trainable": "268435456",
    "seed": "42",
}


def counters(now: int, peak: int, **more: Any) -> Counters:
    """Counters at the end of a phase."""
    return Counters(
        allocated_bytes=now,
        reserved_bytes=peak + (64 << 20),
        active_bytes=now,
        peak_allocated_bytes=peak,
        peak_reserved_bytes=peak + (64 << 20),
        total_bytes=40 * GIB,
        **more,
    )


def records(
    rank: int,
    *,
    world: int = 2,
    rows: int = 4,
    length: int = 2048,
    steps: int = 4,
    noise: int = 0,
    others: int = 0,
    fails_at: int | None = None,
    start: float = START,
    outcome: str = "completed",
    notes: tuple[Note, ...] = (),
) -> list[Record]:
    """A rank's records. Activations: 1 GiB per row of 2,048 tokens. `fails_at`: the step whose backward fails."""
    header = Header(VERSION, rank, world, rank, 1000 + rank, "host-a", start, 1.0, device="NVIDIA A100-SXM4-40GB",
                    device_index=rank, capacity_bytes=40 * GIB)  # fmt: skip
    result: list[Record] = [header]
    clock = 10.0
    shape: dict[str, tuple[int, ...]] = {"input_ids": (rows, length)}
    kept = rows * length * GIB // 2048 + noise
    alive = GIB

    def put(phase: Phase, step: int, begin: int, now: int, peak: int, raised: str = "") -> None:
        nonlocal clock
        clock += 1.0
        result.append(
            PhaseRecord(phase, step, start + clock, clock, 0.25, counters(now, peak, other_processes_bytes=others),
                        start_allocated_bytes=begin, batch=shape if phase is Phase.FORWARD else {}, raised=raised)
        )  # fmt: skip

    put(Phase.LOAD, -1, 0, GIB, GIB)
    for step in range(steps):
        put(Phase.FORWARD, step, alive, alive + kept, alive + kept)
        if step == fails_at:
            request = 512 << 20
            put(Phase.BACKWARD, step, alive + kept, alive, alive + kept + GIB, "OutOfMemoryError")
            result.append(
                OomRecord(Phase.BACKWARD, step, start + clock, clock, "CUDA out of memory.", request,
                          counters(alive + kept, alive + kept + GIB), batch=shape)
            )  # fmt: skip
            return [
                *result,
                *notes,
                End("oom", start + clock, clock, "OutOfMemoryError: CUDA out of memory."),
            ]
        put(Phase.BACKWARD, step, alive + kept, alive + GIB, alive + kept + GIB)
        put(Phase.OPTIMIZER, step, alive + GIB, 3 * GIB, 4 * GIB)
        alive = 3 * GIB
        result.append(StepRecord(step, start + clock, clock, 0.8, counters(alive, 4 * GIB), batch=shape))
    return [*result, *notes, End(outcome, start + clock, clock)]


def write_run(
    folder: Path,
    number: int = 0,
    *,
    settings: Mapping[str, str] | None = None,
    without: tuple[str, ...] = (),
    world: int = 2,
    name: str = "",
    tags: dict[str, str] | None = None,
    run_id: str | None = None,
    **options: object,
) -> Path:
    """Writes a whole run below `folder`; `options` are those of `records`, `settings` change SETTINGS."""
    start = START + 3600.0 * number
    identity = run_id or f"20261122-{number:04d}-{(number * 2654435761) % 65536:04x}"
    path = folder / identity
    (path / RANKS).mkdir(parents=True)
    (path / FINGERPRINT).mkdir()
    run = Run(
        VERSION,
        identity,
        start,
        ("torchrun", "train.py"),
        str(path),
        "host-a",
        world,
        "0.1.0",
        name,
        tags or {},
    )
    (path / RUN).write_bytes(msgspec.json.encode(run))
    for rank in range(world):
        told = records(rank, world=world, start=start, **options)  # type: ignore[arg-type]
        lines = [msgspec.json.encode(one) for one in told]
        (path / RANKS / f"{rank_name(rank)}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        values = {key: value for key, value in {**SETTINGS, **(settings or {})}.items() if key not in without}
        if rank:
            values = {key: value for key, value in values.items() if key.startswith(("environment.", "gpu."))}
        record = Fingerprint(VERSION, rank, {**values, "environment.RANK": str(rank)})
        (path / FINGERPRINT / f"{rank_name(rank)}.json").write_bytes(msgspec.json.encode(record))
    return path
