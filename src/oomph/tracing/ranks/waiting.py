"""When memory that several streams used can be had again: the one thing that depends on how fast a GPU is.

A block that `record_stream` marked is free when the work that other streams had at the time of its free is done, and
the allocator notices at the next request. Nothing here runs at a speed. What is taken instead: **work is done in the
order in which the program issued it, on whatever stream, and at the latest when the host has waited for something that
was issued after it.** A host that never waits is at most one optimizer step ahead of its GPU.

On a real GPU memory comes back at that moment or before it, so the reserved memory of programs that use
`record_stream` (FSDP1, side streams for copies) is rather more here than less. Programs that do not (DDP, FSDP2, one
stream) do not depend on it.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.recorder.recorder import Recorder

_NOTE = (
    "Memory that several streams used (`record_stream`) is taken to be free again when the host has waited for the "
    "GPU, at the latest a step later. A GPU may be done sooner: what is reserved may then be less."
)


def install(recorder: Recorder) -> None:
    """Replaces `Recorder.synchronize` for this trace, gives events a memory of when they were recorded, and looks
    back at each step."""
    import torch

    def synchronize(device: int | None = None, stream: int | None = None) -> None:  # noqa: ARG001 - one order for all
        for memory in recorder.devices.values():
            if device is None or memory.index == device:
                memory.complete_before(len(memory))

    recorder.patches.set(recorder, "synchronize", synchronize)

    def now() -> dict[int, int]:
        return {index: len(memory) for index, memory in recorder.devices.items()}

    def wait(moment: dict[int, int]) -> None:
        for index, position in moment.items():
            recorder.memory(index).complete_before(position)

    def record(original: Any, event: Any, *args: Any, **kwargs: Any) -> Any:
        event.oomph_moment = now()
        return original(event, *args, **kwargs)

    def wait_for(original: Any, event: Any) -> None:
        moment = getattr(event, "oomph_moment", None)
        if moment is None:
            original(event)
        else:
            wait(moment)

    recorder.patches.wrap(torch.cuda.Event, "record", record)
    recorder.patches.wrap(torch.cuda.Event, "synchronize", wait_for)

    last: dict[int, int] = {}

    def step() -> None:
        wait(last)
        last.update(now())

    recorder.on_step.append(step)
    marked = recorder.record_stream

    def record_stream(tensor: Any, stream: int) -> None:
        recorder.note(_NOTE)
        marked(tensor, stream)

    recorder.patches.set(recorder, "record_stream", record_stream)
