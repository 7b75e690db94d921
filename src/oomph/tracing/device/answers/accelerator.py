"""`torch.accelerator`: the same answers under the names that any kind of device has.

Source: torch/accelerator and torch/csrc/DeviceAccelerator.cpp, whose functions these stand in for.
"""

from __future__ import annotations

from typing import Any

from oomph.tracing.device.answers.state import State


def install(state: State) -> None:
    """What `torch.cuda` answers already, passed on."""
    recorder, cuda, torch, known = state.recorder, state.cuda, state.torch, state.functions

    def device_of(index: int) -> int:
        return state.current if index < 0 else state.checked(index)

    def stream(index: int) -> Any:
        return cuda.current_stream(device_of(index))

    def memory_info(index: int) -> tuple[int, int]:
        return state.free_bytes(device_of(index)), state.total_bytes

    state.answer(
        _accelerator_getAccelerator=lambda: torch.device("cuda"),
        _get_accelerator=lambda *_: torch.device("cuda"),  # asked by FSDP2 and torch.distributed
        _accelerator_getDeviceIndex=lambda: state.current,
        _accelerator_setDeviceIndex=known["_cuda_setDevice"],
        _accelerator_exchangeDevice=known["_cuda_exchangeDevice"],
        _accelerator_maybeExchangeDevice=known["_cuda_maybeExchangeDevice"],
        _accelerator_getStream=stream,
        _accelerator_setStream=cuda.set_stream,
        _accelerator_synchronizeDevice=lambda index: recorder.synchronize(device_of(index)),
        _accelerator_isAllocatorInitialized=lambda: True,
        _accelerator_emptyCache=known["_cuda_emptyCache"],
        _accelerator_emptyHostCache=lambda: None,
        _accelerator_getDeviceStats=lambda index: known["_cuda_memoryStats"](device_of(index)),
        _accelerator_resetAccumulatedStats=lambda index: known["_cuda_resetAccumulatedMemoryStats"](
            device_of(index)
        ),
        _accelerator_resetPeakStats=lambda index: known["_cuda_resetPeakMemoryStats"](device_of(index)),
        _accelerator_getMemoryInfo=memory_info,
    )
