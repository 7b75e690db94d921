"""Streams and events.

A stream is a number, as in memory snapshots: 0 the default one, then those of PyTorch's pools, 32 for each priority,
which are handed out in turn (c10/cuda/CUDAStream.cpp). Work on the GPU takes no time here: it is done when the host
waits for it, and events and queries say so.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import time
import types
from typing import Any

from oomph.tracing.device.answers.state import State, front

#: kStreamsPerPool of c10/cuda/CUDAStream.h.
STREAMS_PER_POOL = 32
_CUDA = 1
_LEAST, _GREATEST = 0, -5  # the priorities of all GPUs since Pascal


def install(state: State) -> None:
    """Streams, events, and waiting for them."""
    recorder, cuda = state.recorder, state.cuda
    stream_class = _stream_class(state)
    event_class = _event_class(state)
    external = _external_class(stream_class)

    def set_stream(stream_id: int, device_index: int, device_type: int = _CUDA) -> None:  # noqa: ARG001
        state.current = state.checked(device_index)
        recorder.set_stream(device_index, stream_id)

    def current(device: int) -> tuple[int, int, int]:
        device = state.current if device < 0 else state.checked(device)
        return recorder.current_stream(device), device, _CUDA

    state.answer(
        _cuda_getCurrentStream=current,
        _cuda_getCurrentRawStream=lambda device: current(device)[0],
        _cuda_getDefaultStream=lambda device: (0, current(device)[1], _CUDA),
        _cuda_setStream=set_stream,
        _cuda_getStreamFromExternal=lambda pointer, device: (pointer, current(device)[1], _CUDA),
        _cuda_synchronize=lambda: recorder.synchronize(state.current),
        _CudaStreamBase=stream_class,
        _CudaEventBase=event_class,
    )
    for owner in (cuda, cuda.streams):
        state.replace(owner, Stream=stream_class, ExternalStream=external, Event=event_class)

    def record_stream(tensor: Any, stream: Any) -> None:
        recorder.record_stream(tensor, int(stream.stream_id))

    recorder.patches.set(state.torch.Tensor, "record_stream", record_stream)
    _install_generic(state, stream_class, event_class)


def _base(real: type[Any], abstract: str) -> Any:
    """`real`, with the abstract class that torch 2.4 asks of streams and events too."""
    try:
        streambase = importlib.import_module("torch._streambase")
    except ModuleNotFoundError:
        return real
    asked = getattr(streambase, abstract, real)
    if issubclass(asked, real):  # 2.5 and later
        return real
    return types.new_class(real.__name__, (real, asked))


def _install_generic(state: State, stream_class: type[Any], event_class: type[Any]) -> None:
    """`torch.Stream` and `torch.Event`, which are for any kind of device and make those of this one."""
    torch, recorder = state.torch, state.recorder

    def of_cpu(device: Any) -> bool:
        return isinstance(device, (str, torch.device)) and torch.device(device).type != "cuda"

    def make_stream(real: Any, device: Any = None, *, priority: int = 0, **given: Any) -> Any:
        return (
            real(device, priority=priority, **given)
            if of_cpu(device)
            else stream_class(device, priority, **given)
        )

    def make_event(real: Any, device: Any = None, *, enable_timing: bool = False, **given: Any) -> Any:
        if of_cpu(device):
            return real(device, enable_timing=enable_timing, **given)
        return event_class(enable_timing)

    recorder.patches.set(torch, "Stream", front(torch.Stream, make_stream))
    recorder.patches.set(torch, "Event", front(torch.Event, make_event))


def _stream_class(state: State) -> type[Any]:
    recorder = state.recorder
    turns = {high: itertools.count() for high in (False, True)}

    base: Any = _base(state.torch.Stream, "_StreamBase")

    class Stream(base):
        """Stands in for torch.cuda.Stream: a number on a device."""

        def __new__(cls, device: Any = None, priority: int = 0, **given: Any) -> Any:
            index = given.get("device_index")
            if index is None:
                index = state.checked(state.index(device))
            number = given.get("stream_id", given.get("stream_ptr"))
            if number is None:
                high = priority < 0
                number = 1 + next(turns[high]) % STREAMS_PER_POOL + (STREAMS_PER_POOL if high else 0)
            self = super().__new__(cls, stream_id=number, device_index=index, device_type=_CUDA)
            self._priority = min(_LEAST, max(_GREATEST, priority))
            return self

        def __init__(self, *_: object, **__: object) -> None:
            pass

        @property
        def priority(self) -> int:
            return int(self._priority)

        @property
        def cuda_stream(self) -> int:
            """The handle: here the number itself, as snapshots of a trace name the stream."""
            return int(self.stream_id)

        @property
        def native_handle(self) -> int:
            return self.cuda_stream

        @property
        def _as_parameter_(self) -> Any:
            return ctypes.c_void_p(self.cuda_stream)

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return _LEAST, _GREATEST

        def wait_event(self, event: Any) -> None:
            event.wait(self)

        def wait_stream(self, stream: Any) -> None:
            """Work on the GPU is put in order; the host and the allocator see nothing of it."""

        def record_event(self, event: Any = None) -> Any:
            event = state.cuda.Event() if event is None else event
            event.record(self)
            return event

        def query(self) -> bool:
            self.synchronize()
            return True

        def synchronize(self) -> None:
            recorder.synchronize(self.device_index, self.cuda_stream)

        def __enter__(self) -> Any:
            self._context = state.cuda.stream(self)
            self._context.__enter__()
            return self

        def __exit__(self, *error: object) -> None:
            self._context.__exit__(*error)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Stream) and (other.cuda_stream, other.device) == (
                self.cuda_stream,
                self.device,
            )

        def __hash__(self) -> int:
            return hash((self.cuda_stream, self.device))

        def __repr__(self) -> str:
            return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, self.cuda_stream

    return Stream


def _external_class(stream_class: type[Any]) -> type[Any]:
    class ExternalStream(stream_class):
        """Stands in for torch.cuda.ExternalStream."""

        def __new__(cls, stream_ptr: int, device: Any = None, **given: Any) -> Any:
            return super().__new__(cls, device, stream_id=stream_ptr, **given)

    return ExternalStream


def _event_class(state: State) -> type[Any]:
    recorder = state.recorder
    handles = itertools.count(1)

    base: Any = _base(state.torch.Event, "_EventBase")

    class Event(base):
        """Stands in for torch.cuda.Event. Times are those of the trace itself, not of a GPU."""

        recorded: tuple[int, int, float] | None
        timed: bool
        handle: int

        def __new__(cls, enable_timing: bool = False, *_: object, **__: object) -> Any:
            self: Any = super().__new__(cls, "cuda", enable_timing=enable_timing)
            self.timed = enable_timing
            self.recorded = None
            self.handle = 0
            return self

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def record(self, stream: Any = None) -> None:
            stream = state.cuda.current_stream() if stream is None else stream
            self.recorded = (stream.device_index, int(stream.stream_id), time.perf_counter())
            self.handle = self.handle or next(handles)

        def wait(self, stream: Any = None) -> None:
            """Work on the GPU is put in order; the host and the allocator see nothing of it."""

        def query(self) -> bool:
            self.synchronize()
            return True

        def synchronize(self) -> None:
            if self.recorded is not None:
                recorder.synchronize(self.recorded[0], self.recorded[1])

        def elapsed_time(self, end_event: Any) -> float:
            """Milliseconds between the two, of the trace itself."""
            if not (self.timed and end_event.timed):
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if self.recorded is None or end_event.recorded is None:
                raise ValueError("Both events must be recorded before calculating elapsed time.")
            recorder.assume("times between CUDA events are those of the trace, not of a GPU")
            return max(1e-3, float(end_event.recorded[2] - self.recorded[2]) * 1e3)

        @property
        def cuda_event(self) -> int:
            return int(self.handle)

        @property
        def device(self) -> Any:
            index = state.current if self.recorded is None else self.recorded[0]
            return state.torch.device("cuda", index)

        @property
        def _as_parameter_(self) -> Any:
            return ctypes.c_void_p(self.cuda_event)

        def __repr__(self) -> str:
            return (
                f"<torch.cuda.Event {self.cuda_event:#x}>"
                if self.handle
                else "<torch.cuda.Event uninitialized>"
            )

    return Event
