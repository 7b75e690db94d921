"""Recognises code that runs on a real GPU only: it cannot be traced, and its exception says so in its own words."""

from __future__ import annotations

import re
import sys
from types import TracebackType

from oomph.tracing.child.tracebacks import is_ours

#: What the CUDA runtime, its libraries, Triton and PyTorch say where there is no driver or no kernel.
_NO_DRIVER = re.compile(
    r"lib(?:cuda|cudart|cublas|cublasLt|cudnn|nvrtc|nccl|cusparse|cusolver|nvidia-ml|cufft)[\w.\-]*\.so"
    r"|no kernel image is available"
    r"|CUDA driver version is insufficient"
    r"|Found no NVIDIA driver"
    r"|No CUDA GPUs are available"
    r"|no CUDA-capable device"
    r"|0 active drivers"
    r"|CUDA (?:driver )?error"
    r"|cuda(?:ErrorNoDevice|ErrorInsufficientDriver|GetDeviceCount|GetDevice)"
    r"|cuInit|CUDA_ERROR_|NVML Shared Library Not Found|Driver/library version mismatch"
    r"|not compiled with CUDA|not compiled with GPU support|Not compiled with CUDA"
)
#: What PyTorch says of an operator that has a CUDA kernel and nothing that tells its result's shape.
_NO_SHAPE = re.compile(
    r"Could not run '([^']+)' with arguments from the '(?:CUDA|Meta)' backend"
    r"|There was no fake impl|no fake impl(?:ementation)? registered|unsupported operator: ([\w.:]+)"
    r"|does not have a fake impl|[Oo]perator ([\w:.]+) does not have a (?:meta|fake)"
)
#: A kernel reads memory through an address, which a fake tensor has not.
_NO_DATA = re.compile(
    r"Cannot access data pointer of (?:Tensor|Storage)"
    r"|The tensor has a non-zero number of elements, but its data is not"
    r"|[Pp]ointer argument .* cannot be accessed from Triton"
)


def sentence(error: BaseException) -> str | None:
    """One sentence that names the extension, if a real GPU is what the code lacks; else None."""
    text = str(error)[:20_000]
    name = _package(error.__traceback__)
    # Where no other package takes part, it may be the script, PyTorch, or a gap of the trace itself.
    if "invalid device ordinal" in text:
        asked = text.partition("(")[2].rstrip(")\n") or "it asks for a GPU that is not there"
        return (
            f"The script needs more GPUs than there are: {asked}. --gpu with the name of a machine (p4d.24xlarge) "
            "gives it several."
        )
    whose = f"{name} " if name else "What the script does here "
    if isinstance(error, ImportError | OSError | RuntimeError | AssertionError | ValueError) and (
        _NO_DRIVER.search(text)
    ):
        return f"{whose}needs a real GPU, and cannot be traced: {_first_line(text)}"
    found = _NO_SHAPE.search(text)
    if found:
        operator = next((each for each in found.groups() if each), None)
        what = f"the operator {operator}" if operator else "an operator"
        return (
            f"{whose}calls {what}, which only a real GPU can run, and cannot be traced: {_first_line(text)}"
        )
    if _NO_DATA.search(text):
        return f"{whose}reads GPU memory by its address, which only a real GPU has: {_first_line(text)}"
    return None


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line[:300]


def _package(first: TracebackType | None) -> str:
    """The package of the innermost frame that is neither torch's, Python's nor oomph's."""
    name, each = "", first
    while each is not None:
        module = str(each.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        ours = is_ours(each.tb_frame.f_code.co_filename)
        if module and module not in ("torch", "__main__", "importlib") and not ours:
            if module not in sys.stdlib_module_names:
                name = module
        each = each.tb_next
    return name
