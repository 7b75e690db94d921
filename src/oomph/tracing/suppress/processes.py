"""Other programs that a script starts: questions are answered, training scripts run in their place, the rest is not
started and taken to have worked."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomph.tracing.suppress import nested
from oomph.tracing.suppress.inert import words

if TYPE_CHECKING:
    from oomph.tracing.recorder.recorder import Recorder

#: Programs that only answer. Of git, those subcommands.
_ASKING = frozenset(
    words(
        "uname which hostname whoami id lscpu free nproc cat ls df du head tail wc grep ldconfig file echo true false "
        "test pwd locale getconf sysctl lspci ps date printenv readelf objdump ffprobe arch lsb_release "
        "dpkg-query stat md5sum sha256sum gpustat"
    )
)
_GIT = frozenset(words("rev-parse status log describe diff show ls-files rev-list --version"))
#: And these, where a word says that they only answer.
_GIT_ASKED = {
    "config": words("--get --get-all --list -l"),
    "remote": words("-v get-url show"),
    "branch": words("--show-current -a -r -v --list"),
}
_COMPILERS = frozenset(words("gcc g++ cc c++ clang clang++ nvcc ninja"))
#: What a machine without a GPU driver does not have.
_GPU_TOOLS = frozenset(words("nvidia-smi rocm-smi amd-smi nvidia-settings nvidia-debugdump"))
_SHELL = re.compile(r"[><|;&`$(){}]")


class Answer(Enum):
    """What is done with a program: it is run, it is not there, it is a training script, or it is left out."""

    RUN = 1
    MISSING = 2
    TRAIN = 3
    LEFT_OUT = 4


def decide(line: Sequence[str], piped: bool) -> Answer:
    """What is done with a command line; `piped` if the script reads what it prints."""
    if not line:
        return Answer.LEFT_OUT
    name = nested.program(line[0])
    if name in _GPU_TOOLS:
        return Answer.MISSING
    if name in _ASKING:
        return Answer.RUN
    if name == "git":
        asked = next((word for word in line[1:] if not word.startswith("-") or word == "--version"), "")
        answers = asked in _GIT or any(word in line for word in _GIT_ASKED.get(asked, ()))
        return Answer.RUN if answers else Answer.LEFT_OUT
    if name in _COMPILERS:
        return Answer.RUN if "--version" in line or "-dumpversion" in line else Answer.LEFT_OUT
    python = name.startswith("python") or line[0] == sys.executable
    if python and piped and len(line) > 1 and line[1] in ("-c", "--version", "-V"):
        return Answer.RUN
    return Answer.TRAIN


def install(recorder: Recorder) -> None:
    """Replaces `subprocess.Popen`, `os.system` and what replaces the process."""
    started = _started(recorder)

    def system(_: Callable[..., Any], command: Any) -> int:
        return int(started(command, shell=True).wait())  # noqa: S604 - as os.system does

    def execute(_: Callable[..., Any], file: str, arguments: Sequence[str], *__: Any) -> None:
        code = started([file, *list(arguments)[1:]]).wait()
        raise SystemExit(code)

    recorder.patches.set(subprocess, "Popen", started)
    recorder.patches.wrap(os, "system", system)
    for name in ("execv", "execve", "execvp", "execvpe"):
        recorder.patches.wrap(os, name, execute)


def _started(recorder: Recorder) -> Any:
    real = subprocess.Popen

    class Popen(real):  # type: ignore[valid-type, misc]
        """Starts what only answers; of everything else it is the ended process."""

        def __init__(self, args: Any, *more: Any, **kwargs: Any) -> None:
            line = _words(args, bool(kwargs.get("shell")))
            piped = kwargs.get("stdout") == subprocess.PIPE
            answer = decide(line, piped) if line is not None else Answer.LEFT_OUT
            if answer is Answer.MISSING:
                raise FileNotFoundError(2, os.strerror(2), line[0] if line else "")
            if answer is Answer.RUN:
                super().__init__(args, *more, **kwargs)
                return
            self.args, self.pid, self.stdin = args, 0, None
            self.returncode = _instead(recorder, args, line, kwargs, piped, answer)
            self._text = bool(
                kwargs.get("text") or kwargs.get("universal_newlines") or kwargs.get("encoding")
            )
            self._piped = (piped, kwargs.get("stderr") == subprocess.PIPE)
            self.stdout, self.stderr = (self._nothing(each) for each in self._piped)
            if kwargs.get("stdin") == subprocess.PIPE:
                self.stdin = open(os.devnull, "w" if self._text else "wb")  # noqa: SIM115, PTH123 - the caller's
            self._ended = True

        def _nothing(self, wanted: bool) -> Any:
            return open(os.devnull, "r" if self._text else "rb") if wanted else None  # noqa: PTH123

        def poll(self) -> Any:
            return self.returncode if self._is_ended() else super().poll()

        def wait(self, timeout: float | None = None) -> int:
            return int(self.returncode if self._is_ended() else super().wait(timeout))

        def communicate(self, input: Any = None, timeout: float | None = None) -> Any:  # noqa: A002 - as the real one
            if not self._is_ended():
                return super().communicate(input, timeout)
            empty: Any = "" if self._text else b""
            self._close()
            return tuple(empty if each else None for each in self._piped)

        def send_signal(self, sig: int) -> None:
            if not self._is_ended():
                super().send_signal(sig)

        def __exit__(self, *error: Any) -> None:
            if self._is_ended():
                self._close()
            else:
                super().__exit__(*error)

        def __del__(self, *more: Any, **kwargs: Any) -> None:
            if self._is_ended():
                self._close()
            else:
                super().__del__(*more, **kwargs)

        def _is_ended(self) -> bool:
            return bool(self.__dict__.get("_ended"))

        def _close(self) -> None:
            for stream in (self.stdin, self.stdout, self.stderr):
                if stream is not None:
                    stream.close()

    return Popen


def _is_other_rank(environment: Any) -> bool:
    """Whether a process is started as another rank of this job: Lightning starts its script again with LOCAL_RANK
    (lightning/fabric/strategies/launchers/subprocess_script.py)."""
    rank = (environment or {}).get("LOCAL_RANK")
    return rank is not None and str(rank) != os.environ.get("LOCAL_RANK", "0")


def _words(args: Any, shell: bool) -> list[str] | None:
    """The command line as words; None for a line of shell that is more than one command."""
    if isinstance(args, bytes):
        args = os.fsdecode(args)
    if not isinstance(args, str | os.PathLike):
        found = [os.fsdecode(each) if isinstance(each, bytes | os.PathLike) else str(each) for each in args]
        return found if not shell or len(found) != 1 else _words(found[0], True)
    text = os.fspath(args)
    if not shell:
        return [text]
    if _SHELL.search(text):
        return None
    try:
        return shlex.split(text)
    except ValueError:
        return None


def _instead(
    recorder: Recorder, args: Any, line: list[str] | None, kwargs: Any, piped: bool, answer: Answer
) -> int:
    """Runs a training script here, or lists what is not started; the exit code."""
    if _is_other_rank(kwargs.get("env")):
        recorder.note(
            "The script starts processes for its other ranks; they are not run. --world traces several."
        )
        return 0
    if answer is Answer.TRAIN and line is not None and not piped:
        folder = kwargs.get("cwd")
        target = nested.training_target(
            line, Path.cwd() if folder is None else Path(os.fsdecode(folder)), kwargs.get("env")
        )
        if target is not None:
            return nested.run(recorder, target, kwargs.get("env"), None if folder is None else Path(folder))
    shown = args if isinstance(args, str) else shlex.join(line or [])
    recorder.suppress(f"start {shown[:200]}")
    return 0
