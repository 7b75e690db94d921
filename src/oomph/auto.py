"""`import oomph.auto`: an uncaught OutOfMemoryError is explained on stderr, and leaves a snapshot.

For scripts that have no room for more than a line. Until memory runs out it costs nothing: nothing is imported, hooked
or counted. The traceback is printed as ever, hooks that others have set are called, the exit code stays.

With an `oomph.record()` going on, that one records the failure, and this adds the explanation. Under torchrun, and
under `oomph record -- CMD`, a rank that fails says it in two lines: the whole is in the run directory (`oomph explain
RUN`). With OOMPH_AUTO=phases (`oomph record --phases`, trials) the process is recorded as well (recording.unasked).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from oomph.diagnose.model import Diagnosis
    from oomph.evidence.run.model import OomRecord
    from oomph.recording.recorder import Recording

_WIDTH = 100


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Whether the exception, or one it was raised from, is one of memory. Imports nothing."""
    for _ in range(8):
        if error is None:
            return False
        if type(error).__name__ == "OutOfMemoryError":
            return True
        if isinstance(error, RuntimeError) and "out of memory" in str(error)[:2000]:
            return True
        error = error.__cause__
    return False


class _Hooks:
    """The hooks of this module. Others' are kept and called."""

    def __init__(self) -> None:
        self.before: Any = None
        self.before_thread: Any = None
        self.installed = False
        self._told: set[int] = set()

    def install(self) -> None:
        if self.installed:
            return
        self.installed = True
        self.before, sys.excepthook = sys.excepthook, self.hook
        self.before_thread, threading.excepthook = threading.excepthook, self.thread_hook
        self._notebook()

    def remove(self) -> None:
        """Puts back what was there, unless somebody's hook is around this one."""
        if sys.excepthook == self.hook:
            sys.excepthook = self.before
        if threading.excepthook == self.thread_hook:
            threading.excepthook = self.before_thread
        self.installed = False

    def hook(
        self, kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lines = self._prepare(error)
        self.before(kind, error, trace)
        _print(lines)

    def thread_hook(self, args: Any) -> None:
        lines = self._prepare(args.exc_value)
        self.before_thread(args)
        _print(lines)

    def _notebook(self) -> None:
        """IPython shows exceptions itself, and calls no excepthook."""
        module = sys.modules.get("IPython")
        shell = module.get_ipython() if module is not None and hasattr(module, "get_ipython") else None
        if shell is None or not hasattr(shell, "showtraceback"):
            return
        shown = shell.showtraceback

        def showtraceback(*args: Any, **kwargs: Any) -> Any:
            error = sys.exc_info()[1] or getattr(sys, "last_value", None)
            result = shown(*args, **kwargs)
            if self.installed:
                _print(self._prepare(error))
            return result

        shell.showtraceback = showtraceback

    def _prepare(self, error: BaseException | None) -> list[str]:
        """The record is made at once, while memory is as it was; what to print comes back."""
        try:
            if not _is_out_of_memory(error) or id(error) in self._told:
                return []
            assert error is not None
            self._told.add(id(error))
            return explain(error)
        except Exception as trouble:  # noqa: BLE001 - the exception of the job is what has to be seen
            return [
                f"oomph: the failure could not be explained: {type(trouble).__name__}: {str(trouble)[:300]}"
            ]


def explain(error: BaseException) -> list[str]:
    """Records the failure, and says in lines what is known of it."""
    recording = _recorded(error)
    record = recording.failures.last if recording is not None else None
    directory = recording.directory if recording is not None else None
    world = recording.rank.world_size if recording is not None else 1
    said = []
    if recording is not None and record is not None:
        from oomph.recording.outcome import said as sentence

        said.append(f"oomph: {sentence(record, recording.rank.rank, world, directory)}")
    diagnosis = _diagnosis(error, directory, record)
    if diagnosis is None or not diagnosis.findings:
        return said
    if world > 1 or os.environ.get(
        "OOMPH_COMMAND"
    ):  # `oomph record -- CMD` explains when all ranks have ended
        finding = diagnosis.findings[0]
        first = f" First: {diagnosis.advice.first.text}" if diagnosis.advice is not None else ""
        return [*said, f"oomph: {finding.name} ({finding.certainty.value}, {finding.code}).{first}"]
    from oomph.report.options import ReportOptions
    from oomph.report.text import render_text

    encoding = (getattr(sys.stderr, "encoding", "") or "").lower()
    return [
        *said,
        "",
        render_text(diagnosis, ReportOptions(width=_WIDTH, unicode="utf" in encoding)).rstrip(),
    ]


def _recorded(error: BaseException) -> Recording | None:
    """The recording that has the failure: the one that goes on, or one made for it."""
    api = sys.modules.get("oomph.recording.api")
    latest: Recording | None = api.latest() if api is not None else None
    if latest is not None and (latest.active or latest.ended_with == id(error)):
        latest.quiet = True
        latest.end(error)
        return latest
    if "torch" not in sys.modules:
        return None
    unasked = sys.modules.get("oomph.recording.unasked")
    waiting = unasked.waiting_device() if unasked is not None else None
    if waiting is not None:
        return record_now(error, device=waiting)
    torch = sys.modules["torch"]
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    return record_now(error)


def record_now(error: BaseException, **options: Any) -> Recording:
    """A recording of nothing but this failure. `options` are those of `oomph.record()`."""
    from oomph.recording.api import record

    recording = record(history=0, warn=False, **options)
    recording.phases.know_nothing()
    recording.quiet = True
    recording.end(error)
    return recording


def _diagnosis(error: BaseException, directory: Path | None, record: OomRecord | None) -> Diagnosis | None:
    """What oomph's rules say: of the run directory, else of the traceback."""
    import io
    import traceback

    from oomph.api import explain as explain_files

    if directory is not None and record is not None and record.files:
        with contextlib.suppress(Exception):
            found = explain_files([str(directory)])
            if found.findings:
                return found
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    with contextlib.suppress(Exception):
        return explain_files(["-"], stdin=io.BytesIO(text.encode("utf-8", "replace")))
    return None


def _print(lines: list[str]) -> None:
    if not lines:
        return
    with contextlib.suppress(Exception):  # no stderr, or a closed one
        sys.stderr.write("\n".join(lines) + "\n")
        sys.stderr.flush()


def _phases() -> None:
    """OOMPH_AUTO=phases: the process is recorded from its first forward on. Says why where it is not."""
    try:
        from oomph.recording.unasked import begin

        begin()
    except Exception as error:  # noqa: BLE001 - the job comes first
        _print([f"oomph: this process is not recorded ({type(error).__name__}: {str(error)[:300]})"])


_hooks = _Hooks()
_hooks.install()
if os.environ.get("OOMPH_AUTO") == "phases" and "torch" in sys.modules:
    _phases()
