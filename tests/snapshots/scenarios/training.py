"""Training jobs that ran into the limit, or only nearly: where, and what they did about it."""

from __future__ import annotations

from dataclasses import replace

from oomph.units import GIB, MIB
from tests.snapshots import sites
from tests.snapshots.device import Clock, Device, Options, OutOfMemory
from tests.snapshots.job import Job, Spec
from tests.snapshots.scenarios.card import OTHER, Card, finished
from tests.snapshots.truth import FULL, Failed, Truth, judged
from tests.snapshots.written import Made

COMM_STREAM = 0x55D0_F00D


def _device(seed: int, style: str, room_bytes: int, index: int = 0) -> Device:
    return Device(
        Options(seed=seed, style=style, total_bytes=room_bytes + GIB, outside_bytes=GIB, index=index)
    )


def _dying(spec: Spec, seed: int, style: str, phase: str, line: object) -> Made:
    """On the largest device, in steps of 1 %, on which the job dies in that phase at that line, full."""
    roomy = _device(seed, "none", 200 * GIB)
    Job(roomy, spec).run(3)
    for percent in range(100, 20, -1):
        device = _device(seed, style, roomy.allocator.peak_allocated_bytes * percent // 100)
        job = Job(device, spec)
        try:
            job.run(3)
        except OutOfMemory as error:
            failed: Failed = error.failed
            if failed.phase == phase and failed.line == line and failed.short_by_bytes:
                return finished(device, Truth(verdict=FULL, failed=failed), job.annotations)
    raise AssertionError("the generator is wrong: the job never dies there")


def logits(seed: int, style: str = "all") -> Made:
    """A vocabulary of 128,000: the loss is where memory ends."""
    spec = Spec(layers=2, hidden=1024, vocabulary=128_000, tokens=4096 + 1024 * (seed % 4))
    return _dying(spec, seed, style, "forward", sites.loss().line)


def optimizer_scratch(seed: int, style: str = "all") -> Made:
    """All parameters' scratch at once, at the end of the first step."""
    spec = Spec(layers=4 + seed % 4, hidden=2048, tokens=512)
    return _dying(spec, seed, style, "optimizer", sites.optimizer_scratch().line)


def first_step_states(seed: int, style: str = "all") -> Made:
    """The optimizer's states do not fit: nothing of them can be seen before the first step ends."""
    spec = Spec(layers=4 + seed % 4, hidden=2048, tokens=512, foreach=False)
    return _dying(spec, seed, style, "optimizer", sites.optimizer_state().line)


def backward(seed: int, style: str = "all") -> Made:
    """Dies on the autograd thread, whose Python-only stack is empty."""
    spec = Spec(layers=3, hidden=2048, tokens=4096 + 512 * (seed % 3), vocabulary=32_000)
    return _dying(spec, seed, style, "backward", None)


def finds_its_batch(seed: int, style: str = "all") -> Made:
    """A first batch that is too long fails; the job halves it and trains on."""
    spec = Spec(layers=3, tokens=32_768)
    device = _device(seed, style, 2 * GIB + seed % 5 * 50 * MIB)
    job = Job(device, spec)
    job.load()
    truth = Truth(caught=True)
    done = 0
    while done < 4:
        try:
            job.train(done)
            done += 1
        except OutOfMemory as error:
            truth.failed, truth.verdict = error.failed, judged(error.failed)
            job.unwind()
            job.spec = replace(job.spec, tokens=job.spec.tokens // 2)
            device.step_positions.pop()
    return finished(device, truth, job.annotations)


def dies_and_unwinds(seed: int, style: str = "all") -> Made:
    """The snapshot is taken by an except clause: what the step had is freed by then, and nothing follows."""
    spec = Spec(layers=4, tokens=32_768)
    device = _device(seed, style, 2 * GIB)
    job = Job(device, spec)
    truth = Truth()
    try:
        job.run(2)
    except OutOfMemory as error:
        truth.failed, truth.verdict = error.failed, judged(error.failed)
        job.unwind()
    return finished(device, truth, job.annotations)


def retries(seed: int, style: str = "all") -> Made:
    """Buffers of one size are cached, one of another size does not fit beside them: given back, then served."""
    card = Card(seed, 6 * GIB, style=style)
    device = card.device
    device.phase = "load"
    device.alloc(2 * GIB, sites.load(), "parameters")
    device.phase = "forward"
    buffers = [device.alloc(1000 * MIB, sites.block(45), OTHER) for _ in range(3)]
    for buffer in buffers:
        device.free(buffer, sites.block(46))
    served = device.alloc((2000 + seed % 10 * 100) * MIB, sites.block(47), OTHER)
    for _ in range(4):
        device.free(device.alloc(100 * MIB, sites.block(45), OTHER), sites.block(46))
    device.free(served, sites.block(48))
    assert device.retries
    return card.made(Truth())


def empties_its_cache(seed: int, style: str = "all") -> Made:
    """The same requests, but the script itself empties the cache first: no retry."""
    card = Card(seed, 6 * GIB, style=style)
    device = card.device
    device.phase = "load"
    device.alloc(2 * GIB, sites.load(), "parameters")
    device.phase = "forward"
    buffers = [device.alloc(1000 * MIB, sites.block(45), OTHER) for _ in range(3)]
    for buffer in buffers:
        device.free(buffer, sites.block(46))
    device.empty_cache(sites.empty_cache())
    served = device.alloc((2000 + seed % 10 * 100) * MIB, sites.block(47), OTHER)
    device.free(served, sites.block(48))
    assert not device.retries
    return card.made(Truth())


def workspaces(seed: int, style: str = "all") -> Made:
    """cuBLAS's scratch of four streams and of the autograd thread; a job that ends well."""
    size = (8_519_680, 33_554_432)[seed % 2]
    device = _device(seed, style, 40 * GIB)
    job = Job(device, Spec(workspace_bytes=size))
    job.load()
    device.phase = "forward"
    for stream in range(1, 4):
        device.alloc(size, sites.workspace(), "workspace", stream=COMM_STREAM + stream)
    for step in range(4):
        job.train(step)
    return finished(device, Truth(categories={"workspace": 5 * size}), job.annotations)


def data_parallel(seed: int, style: str = "all") -> Made:
    """DDP's buckets, beside a job that is somewhat too large."""
    buckets = (25 + 10 * (seed % 3)) * MIB
    spec = Spec(layers=3, hidden=2048, tokens=5120, vocabulary=32_000, communication_bytes=buckets)
    return _dying(spec, seed, style, "backward", None)


def overlapping_streams(seed: int, style: str = "all") -> Made:
    """Blocks that a communication stream still uses when they are freed; the last request waits, and fails."""
    card = Card(seed, (5 + seed % 4) * GIB, style=style)
    device = card.device
    device.phase = "load"
    device.alloc(2 * GIB, sites.load(), "parameters")
    device.phase = "backward"
    for round_ in range(6):
        sent = [
            device.alloc((20 + index * 7) * MIB, sites.backward(), "gradients")
            for index in range(3 + round_ % 3)
        ]
        for tensor in sent:
            device.record_stream(tensor, COMM_STREAM)
            device.free(tensor, sites.backward())
        if round_ % 2:
            device.synchronize(COMM_STREAM)
    kept = device.alloc(card.room() - 700 * MIB, sites.block(52), OTHER)
    assert kept.size_bytes
    failed = card.fails(5 * GIB, sites.head())
    return card.made(Truth(verdict=FULL, failed=failed))


def one_of_three_devices(seed: int, style: str = "all") -> Made:
    """Device 0 is unused, device 1 dies, device 2 is fine."""
    clock = Clock(seed)
    unused = Device(Options(seed=seed, style=style, index=0), clock)
    devices = [unused]
    truth = Truth()
    annotations = []
    for index, room in ((1, 2 * GIB), (2, 30 * GIB)):
        device = Device(
            Options(seed=seed, style=style, total_bytes=room + GIB, outside_bytes=GIB, index=index), clock
        )
        job = Job(device, Spec(layers=4, tokens=32_768))
        try:
            job.run(3)
        except OutOfMemory as error:
            truth.failed, truth.verdict = error.failed, judged(error.failed)
        annotations += job.annotations
        devices.append(device)
    made = finished(devices[1], truth, annotations)
    made.devices, made.shown = devices, 1
    return made


#: Those that end in a failed request.
DYING = {
    each.__name__: each
    for each in (
        logits,
        optimizer_scratch,
        first_step_states,
        backward,
        data_parallel,
        finds_its_batch,
        dies_and_unwinds,
        overlapping_streams,
        one_of_three_devices,
    )
}
#: Those that do not.
LIVING = {each.__name__: each for each in (retries, empties_its_cache, workspaces)}
