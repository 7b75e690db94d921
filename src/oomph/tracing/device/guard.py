"""A device guard that does nothing, for a torch (before 2.9 or so) that has none for CUDA devices that are not there.

It is like c10's NoOpDeviceGuardImpl<CUDA> (c10/core/impl/DeviceGuardImplInterface.h): a device has a type and an index
in two bytes, so functions that return one return a number, and so do those that return a stream, of which nothing but
the device means something here: waiting for streams does nothing.
"""

from __future__ import annotations

import ctypes
import platform
import re
from pathlib import Path
from typing import Any

from oomph.tracing.device.layout import Layout, guard_layout, words

#: Device(CUDA, 0): the type in the low byte, the index in the other.
_FIRST = 0x0001
#: The index of the device that is the current one; a trace changes it. `x.to("cuda")` asks for it, to see that x is
#: there already.
current = [0]


def make(include: Path, guards: int, zero: int, one: int) -> tuple[int, tuple[Any, ...]] | str:
    """(address of the guard, what must be kept alive), or what speaks against it.

    `guards` is c10's registry of guards, `zero` and `one` functions that return these numbers.
    """
    layout = guard_layout(include)
    cpu = words(guards, 1)[0]
    if not cpu:
        return "it has no device guard for the CPU"
    theirs = words(words(cpu, 1)[0], len(layout.methods))
    if not _confirmed(layout, theirs):
        return "its table of device guards is not in the order of its headers"
    answer = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p)(lambda _: _FIRST | current[0] << 8)
    functions = _functions(layout, zero, one)
    functions[layout.names.index("getDevice")] = ctypes.cast(answer, ctypes.c_void_p).value or 0
    held = (ctypes.c_uint64 * len(functions))(*functions)
    guard = (ctypes.c_uint64 * 1)(ctypes.addressof(held))
    return ctypes.addressof(guard), (answer, held, guard)


def _functions(layout: Layout, zero: int, one: int) -> list[int]:
    """A function for each place: the type and the number of devices are 1, and so is Device(CUDA, 0)."""
    ones = {"type", "exchangeDevice", "deviceCount", "exchangeStream"}
    return [one if name in ones or re.fullmatch(r"get\w*Stream\w*", name) else zero for name in layout.names]


def _confirmed(layout: Layout, functions: list[int]) -> bool:
    """Whether the CPU's guard is laid out so. In c10's header its exchangeDevice and getDevice do the same, as do its
    getStream and exchangeStream, and nothing else returns a device: their machine code must be the same."""
    length = {"x86_64": 6, "aarch64": 8}[platform.machine()]
    code = [ctypes.string_at(function, length) if function else b"" for function in functions]
    wanted = {"getDevice": {"getDevice", "exchangeDevice"}, "getStream": {"getStream", "exchangeStream"}}
    for name, same in wanted.items():
        if not same <= set(layout.names):
            return False
        model = code[layout.names.index(name)]
        if {other for other, text in zip(layout.names, code, strict=True) if text == model} - {
            "getNewStream"
        } != same:
            return False
    return True
