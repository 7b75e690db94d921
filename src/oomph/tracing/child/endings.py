"""From the exception that ended a script to how it ended, and what is said of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from oomph.errors import OomphError
from oomph.tracing.child import gpu_code, tracebacks
from oomph.tracing.child.limits import LimitReached
from oomph.tracing.child.request import Ending
from oomph.tracing.model import Failed
from oomph.tracing.recorder.recorder import TraceEnd

#: What a fault of the tracer itself looks like: code of ours that raises one of these in its innermost frame.
_FAULTS = (AttributeError, KeyError, NameError, AssertionError, IndexError, RecursionError)


class Interrupted(BaseException):
    """SIGTERM was sent."""


@dataclass(frozen=True)
class Judged:
    """`shown` is an exception whose traceback the script would have printed."""

    ending: Ending
    sentence: str = ""
    exit_code: int = 0
    failed: Failed | None = None
    shown: BaseException | None = None


def judge(error: BaseException | None) -> Judged:
    """How a script ended that raised `error` (None: nothing)."""
    match error:
        case None:
            return Judged(Ending.FINISHED)
        case SystemExit():
            return _exit(error)
        case TraceEnd():
            return Judged(Ending.STEPS)
        case LimitReached():
            return Judged(Ending.LIMIT, str(error))
        case KeyboardInterrupt() | Interrupted():
            where = tracebacks.place(tracebacks.innermost(error))
            return Judged(
                Ending.INTERRUPTED, f"Interrupted at {where}: the trace holds what ran so far.", exit_code=130
            )
        case OomphError():
            return Judged(Ending.REFUSED, str(error), exit_code=error.exit_code)
    return _failure(error)


def _exit(error: SystemExit) -> Judged:
    """As Python ends on SystemExit: a number is the exit code, text is printed and means 1."""
    code = error.code
    if code is None or code == 0:
        return Judged(Ending.FINISHED)
    if isinstance(code, int):
        return Judged(Ending.EXITED, f"The script ended itself with exit code {code}.", exit_code=code & 0xFF)
    print(code, file=sys.stderr)  # noqa: T201 - the script's own words
    return Judged(Ending.EXITED, "The script ended itself with a message, which stands above.", exit_code=1)


def _failure(error: BaseException) -> Judged:
    fault = _own_fault(error)
    needs_gpu = gpu_code.sentence(error)
    tracebacks.strip(error)
    full = _out_of_memory(error)
    failed = Failed(_name(type(error)), _text(error), tracebacks.text(error), full)
    if full:
        ending, sentence = Ending.OUT_OF_MEMORY, ""
    elif needs_gpu is not None:
        ending, sentence = Ending.GPU_CODE, needs_gpu
    else:
        ending, sentence = Ending.FAILED, fault
    return Judged(ending, sentence, exit_code=1, failed=failed, shown=error)


def _own_fault(error: BaseException) -> str:
    """A sentence where the exception comes from the tracer's own code; else nothing."""
    frame = tracebacks.innermost(error)
    if frame is None or not tracebacks.is_ours(frame.f_code.co_filename) or not isinstance(error, _FAULTS):
        return ""
    return (
        f"This exception was raised inside oomph, at {frame.f_code.co_filename}:{frame.f_lineno}: if the script runs "
        "on a GPU, it is a fault of oomph and not of the script."
    )


def _out_of_memory(error: BaseException) -> bool:
    """Whether the card was full: the exception itself, or the one that it was raised from."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "OutOfMemoryError", None) or getattr(
        getattr(torch, "cuda", None), "OutOfMemoryError", None
    )
    if kind is None:
        return False
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        if isinstance(one, kind):
            return True
        seen.add(id(one))
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return False


def _name(kind: type[BaseException]) -> str:
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"


def _text(error: BaseException) -> str:
    """`str(error)`, which is the script's code and may fail itself."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever a foreign __str__ raises
        return ""
