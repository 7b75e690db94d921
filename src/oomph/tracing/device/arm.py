"""Makes FakeTensors on device `cuda` work with autograd and autocast in a torch that finds no GPU.

What is missing there, and what stands in (docs/decisions/0010-fake-cuda-device.md says why it is done this way):

1. A device guard. c10 has a no-op guard for CUDA and puts it in place of a guard that counts no devices
   (c10/core/impl/DeviceGuardImplInterface.cpp, ensureCUDADeviceGuardSet). A CPU build has no guard at all: one that
   answers zero to everything is registered, and c10 replaces it.
2. An accelerator. Autograd asks `at::getAccelerator()` (ATen/DeviceAccelerator.cpp), which asks the CUDA hooks.
3. No context. With `hasPrimaryContext` false autograd's engine remembers no streams (torch/csrc/autograd/engine.cpp).

The hooks object gets a copy of its own table of functions with a few of them replaced by functions that exist in the
process; no Python runs in them. Pinned memory, which data loaders ask for, is ordinary memory of the CPU. All of this
lasts until the process ends.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
from pathlib import Path
from typing import Any

from oomph.errors import UsageError
from oomph.tracing.device import cuda_kernels, guard
from oomph.tracing.device.layout import PREFIX, WORD, Layout, hooks_layout, mismatch, words

#: c10::DeviceType::CUDA
_CUDA = 1

_lock = threading.Lock()
_armed = False

_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"
_CPU_ALLOCATOR = "_ZN3c1015GetCPUAllocatorEv"
_HOOKS = "_ZN2at6detail12getCUDAHooksEv"
_TABLE = "_ZTVN2at18CUDAHooksInterfaceE"


def arm() -> None:
    """Prepares this process for FakeTensors on `cuda`; does nothing where a GPU is found or when called again.

    It cannot be undone, for threads of autograd may be inside. After it `torch.accelerator.current_accelerator()` is
    cuda until the process (in a notebook: the kernel) ends; `torch.cuda.is_available()` and everything on the CPU
    answer as before once a trace is over.

    Raises UsageError, one sentence, on another platform or with a torch where it cannot work.
    """
    global _armed  # noqa: PLW0603 - the state of the process, not of a caller
    with _lock:
        if _armed:
            return
        import torch

        if not torch.cuda.is_available():
            _check_platform(torch)
            _prepare(torch)
        _armed = True


def hide_gpus() -> None:
    """Lets this process find no GPU, for good: for processes that oomph starts, before anything asks torch for devices.

    A trace is then the same on a machine with a GPU as on one without, and takes no memory of it. The environment is
    as before afterwards, so that the script reads what it would.
    """
    import torch

    count = getattr(torch._C, "_cuda_getDeviceCount", None)  # noqa: SLF001 - what torch.cuda itself calls
    if count is None:
        return
    name = "CUDA_VISIBLE_DEVICES"
    before = os.environ.get(name)
    os.environ[name] = ""
    try:
        count()  # the driver reads the variable once, and c10 keeps the count (c10/cuda/CUDAFunctions.cpp)
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def is_armed() -> bool:
    """Whether `arm` was called in this process and worked."""
    return _armed


def _check_platform(torch: Any) -> None:
    if sys.platform != "linux":
        raise UsageError(
            "Tracing without a GPU works on Linux only; run it in a Linux container or on a Linux machine."
        )
    if platform.machine() not in ("x86_64", "aarch64") or WORD != 8:
        raise UsageError(f"Tracing works on x86_64 and aarch64, not on {platform.machine()}.")
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < (2, 4):
        raise UsageError(f"Tracing needs torch 2.4 or later; {torch.__version__} is installed.")
    if torch.version.hip is not None:
        raise UsageError("Tracing needs a CPU or CUDA build of torch; the installed one is for ROCm.")


def _prepare(torch: Any) -> None:
    root = Path(torch.__file__).parent
    layout = hooks_layout(root / "include")
    try:
        c10 = ctypes.CDLL(str(root / "lib/libc10.so"))
        cpu = ctypes.CDLL(str(root / "lib/libtorch_cpu.so"))
        guards = ctypes.c_void_p.in_dll(c10, _GUARDS)
        cpu_allocator = ctypes.cast(getattr(c10, _CPU_ALLOCATOR), ctypes.c_void_p).value or 0
        get_hooks = getattr(cpu, _HOOKS)
        table = ctypes.addressof(ctypes.c_void_p.in_dll(cpu, _TABLE))
    except (OSError, ValueError, AttributeError) as error:
        raise _refused(torch, str(error)) from None
    problem = mismatch(layout, table, platform.machine())
    if problem is not None:
        raise _refused(torch, problem)
    zero = words(table + PREFIX * WORD, len(layout.methods))[_zero_place(torch, layout)]
    get_hooks.restype = ctypes.c_void_p
    hooks = get_hooks()
    _check_object(torch, hooks, table)
    own_guard = _set_guard(torch, root / "include", ctypes.addressof(guards), zero)
    _set_hooks(hooks, layout, zero, cpu_allocator, own_guard)
    _avoid_device_init()
    cuda_kernels.register()


def _refused(torch: Any, why: str) -> UsageError:
    return UsageError(
        f"Cannot trace with torch {torch.__version__} on a machine without a GPU: {why}. "
        "Another build of torch (2.4 to 2.14) may work."
    )


def _zero_place(torch: Any, layout: Layout) -> int:
    """A function of the interface that returns false and touches nothing."""
    for name in ("hasROCM", "hasMAGMA"):
        place = layout.place(name)
        if place is not None and layout.methods[place].returns_zero:
            return place
    raise _refused(torch, "its CUDA hooks have no function that returns false")


def _check_object(torch: Any, hooks: int, table: int) -> None:
    """The object is the interface's own or directly derived from it, so its table begins as the interface's."""
    own = words(hooks, 1)[0]
    if own == table + PREFIX * WORD:
        return
    name = ctypes.string_at(words(words(own - WORD, 1)[0] + WORD, 1)[0])
    if not name.endswith(b"CUDAHooksE"):
        raise _refused(torch, f"its CUDA hooks are of an unknown class ({name.decode('ascii', 'replace')})")


def _set_guard(torch: Any, include: Path, guards: int, zero: int) -> bool:
    """c10's no-op guard for CUDA, or one of our own (True) where c10 has none."""
    slot = guards + _CUDA * WORD
    ensure = getattr(torch._C, "_ensureCUDADeviceGuardSet", None)  # noqa: SLF001 - what FakeTensorMode itself calls
    if ensure is None:
        made = guard.make(include, guards, zero, _true())
        if isinstance(made, str):
            raise _refused(torch, made)
        address, held = made
        _keep(*held)
        ctypes.c_uint64.from_address(slot).value = address
        return True
    if not words(slot, 1)[0]:
        # The guard interface has about 20 functions; a table may be longer than what is called.
        functions = (ctypes.c_uint64 * 64)(*[zero] * 64)
        empty = (ctypes.c_uint64 * 1)(ctypes.addressof(functions))
        _keep(functions, empty)
        ctypes.c_uint64.from_address(slot).value = ctypes.addressof(empty)
    before = words(slot, 1)[0]
    ensure()
    if words(slot, 1)[0] == before:
        raise _refused(torch, "c10 has not put its no-op guard in place")
    return False


def _true() -> int:
    """`Py_IsInitialized`: 1 as long as Python runs, takes no argument and needs no lock."""
    return ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value or 0


def _set_hooks(hooks: int, layout: Layout, zero: int, cpu_allocator: int, own_guard: bool) -> None:
    """Points the hooks object to a copy of its table, with the functions that must answer differently."""
    count = PREFIX + len(layout.methods)
    own = words(hooks, 1)[0]
    copy = (ctypes.c_uint64 * count)(*words(own - PREFIX * WORD, count))
    # The hooks of 2.4 to 2.6 or so have no isBuilt, and getAccelerator() asked hasCUDA().
    built = "isBuilt" if layout.place("isBuilt") is not None else "hasCUDA"
    replaced = {
        built: _true(),
        "hasPrimaryContext": _true() if own_guard else zero,
        "init": zero,
        "initCUDA": zero,
        "getPinnedMemoryAllocator": cpu_allocator,  # both take nothing that matters and return an Allocator*
    }
    for name, function in replaced.items():
        place = layout.place(name)
        if place is not None and function:
            copy[PREFIX + place] = function
    _keep(copy)
    ctypes.c_uint64.from_address(hooks).value = ctypes.addressof(copy) + PREFIX * WORD


def _keep(*tables: Any) -> None:
    """Lets the tables live as long as the process: the libraries use them after Python has ended."""
    for table in tables:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(table))


def _avoid_device_init() -> None:
    """FakeTensorMode decides by `torch.cuda.is_available()`, which says yes in a trace, whether to start CUDA."""
    from torch._subclasses import fake_tensor

    if hasattr(fake_tensor.FakeTensorMode, "avoid_device_init"):
        setattr(fake_tensor.FakeTensorMode, "avoid_device_init", property(lambda _: True))  # noqa: B010 - torch types it
    for name in ("init_cuda_context", "init_gpu_context"):  # up to 2.5 or so, and later
        if hasattr(fake_tensor, name):
            setattr(fake_tensor, name, lambda *_: None)
