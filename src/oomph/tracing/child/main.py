"""What the child does: the script inside a session, then the trace and the outcome."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from oomph.errors import OomphError
from oomph.tracing.child import accelerate_launch, environment, process, script, steps
from oomph.tracing.child.endings import Interrupted, Judged, judge
from oomph.tracing.child.limits import Watch
from oomph.tracing.child.request import Ending, Outcome, Request, read_request, write
from oomph.tracing.settings import TraceSettings

#: Opens the session of a trace: `oomph.tracing.session.Session`, or a test's.
OpenSession = Callable[[TraceSettings], Any]
#: Exit code of a trace that did what was asked; how the script ended stands in the outcome.
DONE = 0
#: Of one that was stopped before there was anything to write. It leaves no outcome.
INTERRUPTED = 130


def main(path: Path) -> None:
    """Runs what the request asks for, writes its files, and ends the process. Returns never."""
    request = read_request(path)
    process.prepare(int(os.environ.pop("OOMPH_TRACE_PARENT", "0")) or None)
    try:
        outcome = execute(request, _session)
    except (KeyboardInterrupt, Interrupted):
        # Before the script's first line or after its last: no code of its own was stopped, so no traceback is its.
        finish(INTERRUPTED)
    write(outcome, Path(request.outcome))
    finish(DONE)


def finish(code: int) -> NoReturn:
    """Ends the process now. What is left of the interpreter is not taken down: destructors of a simulated device, and
    exit handlers that would run without the suppression, have nothing to do any more."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    for each in multiprocessing.active_children():
        each.kill()
    os._exit(code)


def _session(settings: TraceSettings) -> Any:
    from oomph.tracing.device.arm import hide_gpus
    from oomph.tracing.session import Session

    # A GPU of this machine is another one than the simulated, and nothing is to run on it.
    hide_gpus()
    return Session(settings)


def execute(request: Request, open_session: OpenSession) -> Outcome:
    """Traces the script; the trace is written when there is one."""
    began = time.monotonic()
    os.chdir(request.folder)
    os.environ.update(environment.variables(request, os.environ))
    process.quiet_operators()
    try:
        session = open_session(request.settings)
        with session:
            idle = steps.watch_optimizers()
            judged = _run(request, session.recorder)
            process.undisturbed()
            if judged.ending is Ending.STEPS:
                judged = replace(judged, sentence=idle())
            steps_done = session.recorder.steps_done
    except OomphError as error:
        return _refused(error, began)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return _refused(OomphError(f"PyTorch is not installed in {sys.executable}: a trace needs it."), began)
    outcome = Outcome(
        judged.ending,
        judged.sentence or steps.sentence(judged.ending, steps_done, request.settings.steps),
        exit_code=judged.exit_code,
        kind=judged.failed.kind if judged.failed else "",
        text=judged.failed.text if judged.failed else "",
        steps_done=steps_done,
    )
    if judged.ending is not Ending.REFUSED:
        _write_trace(request, session.trace(), judged, outcome.sentence)
        outcome = replace(outcome, traced=True)
    return replace(outcome, seconds=time.monotonic() - began, peak_host_bytes=process.peak_bytes())


def _write_trace(request: Request, trace: Any, judged: Judged, sentence: str) -> None:
    from oomph.tracing.write import write as write_trace

    notes = (*request.target.notes, *([sentence] if sentence else ()), *trace.notes)
    write_trace(replace(trace, failed=judged.failed, notes=notes), request.out)


def _refused(error: OomphError, began: float) -> Outcome:
    return Outcome(
        Ending.REFUSED,
        str(error),
        exit_code=error.exit_code,
        seconds=time.monotonic() - began,
        peak_host_bytes=process.peak_bytes(),
    )


def _run(request: Request, recorder: Any) -> Judged:
    """The script from its first line to its end."""

    def give_up(sentence: str) -> None:
        outcome = Outcome(
            Ending.LIMIT, f"{sentence} It could not be stopped there, so there is no trace.", exit_code=1
        )
        write(outcome, Path(request.outcome))
        finish(DONE)

    judged = Judged(Ending.FINISHED)
    with Watch(request.limits, lambda: int(recorder.operators), give_up) as watch:
        recorder.on_tick.append(watch.tick)
        try:
            _start(request)
            _leave()
        except BaseException as error:  # noqa: BLE001 - whatever ends a script
            judged = judge(error)
            if judged.shown is not None and not (request.expects_full and _full(judged)):
                _show(judged.shown)
            if isinstance(error, SystemExit):
                with contextlib.suppress(BaseException):
                    _leave()
    return judged


def _full(judged: Judged) -> bool:
    return judged.failed is not None and judged.failed.out_of_memory


def _start(request: Request) -> None:
    target = request.target
    if target.launcher is not None and target.launcher.name == "accelerate":
        os.environ.update(accelerate_launch.variables(target.launcher, request.settings.world))
    first = environment.first_arguments(target.launcher, request.settings.rank)
    script.run(replace(target, arguments=(*first, *target.arguments)))


def _leave() -> None:
    """What Python does after a script's last line: it waits for threads and runs exit handlers. Here, because what
    these write has to be suppressed too."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()  # noqa: SLF001 - what Python itself calls at the end


def _show(error: BaseException) -> None:
    """Prints the traceback as the script would have ended: through its own hook, if it set one."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    with contextlib.suppress(Exception):
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
