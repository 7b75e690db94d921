"""Starts the command and waits for it, passing on every signal that is meant for it.

The command stays in our process group. What a terminal sends (Ctrl-C, Ctrl-Z, a hang-up) reaches the whole group, the
command included, and is not sent to it again; what somebody sends to us alone is sent on to the command, and to it
alone, as it would have been without us.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Callable, Mapping, Sequence

from oomph.errors import UsageError

#: Signals that are passed on; SIGKILL and SIGSTOP cannot be.
PASSED_ON = tuple(
    getattr(signal, name)
    for name in (
        "SIGINT",
        "SIGTERM",
        "SIGHUP",
        "SIGQUIT",
        "SIGUSR1",
        "SIGUSR2",
        "SIGCONT",
        "SIGALRM",
        "SIGWINCH",
    )
    if hasattr(signal, name)
)
#: `si_code` of a signal that the kernel sends by itself, as for a key.
_SI_KERNEL = 0x80
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


class NotStarted(Exception):  # noqa: N818 - an outcome with a code of its own
    """The command could not be started; `exit_code` is the one that shells give."""

    def __init__(self, exit_code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class Child:
    """A running command. Signals that are to be passed on are blocked from `block` on, so that none is lost between
    the start and the first wait."""

    def __init__(self) -> None:
        if not hasattr(os, "posix_spawnp") or not hasattr(signal, "pthread_sigmask"):
            raise UsageError(
                "oomph record -- CMD needs a POSIX system; oomph.record() in the script runs anywhere"
            )
        self.pid = 0
        self._set = {*PASSED_ON, signal.SIGCHLD, signal.SIGTSTP}
        self._before: set[int] = set()

    def block(self) -> None:
        """From now on signals wait for `wait`."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._before = {int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, self._set)}

    def unblock(self) -> None:
        """As it was before."""
        with contextlib.suppress(OSError, ValueError):
            signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def start(
        self, command: Sequence[str], environment: Mapping[str, str], out: int | None, err: int | None
    ) -> None:
        """Starts the command with its output in `out` and `err`. Raises NotStarted."""
        actions: list[tuple[int, ...]] = []
        # Ends that have the numbers of the streams already would be closed by the first dup2.
        for end, stream in ((out, 1), (err, 2)):
            if end is not None:
                actions.append((os.POSIX_SPAWN_DUP2, end, stream))
        restored = [getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, name)]
        try:
            self.pid = os.posix_spawnp(
                command[0],
                list(command),
                dict(environment),
                file_actions=actions,
                setsigmask=self._before,
                setsigdef=restored,
            )
        except (FileNotFoundError, NotADirectoryError):
            raise NotStarted(_NOT_FOUND, f"{command[0]}: command not found") from None
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise NotStarted(_NOT_FOUND, f"{command[0]}: command not found") from None
            reason = error.strerror or str(error)
            raise NotStarted(_NOT_EXECUTABLE, f"{command[0]}: cannot be run ({reason})") from None
        except ValueError as error:  # a null character in an argument
            raise NotStarted(_NOT_EXECUTABLE, f"{command[0]!r}: cannot be run ({error})") from None

    def wait(self, resized: Callable[[], None]) -> tuple[int, int | None]:
        """(exit code, signal that ended it) once the command is over. `resized`: the terminal has another size."""
        while True:
            done = self._reap()
            if done is not None:
                return done
            found = self._next()
            if found is None:
                continue
            number, from_kernel = found
            if number == signal.SIGWINCH:
                resized()  # the command may have looked before: it is told again
                from_kernel = False
            if number == signal.SIGTSTP:
                if not from_kernel:
                    self._send(number)
                os.kill(os.getpid(), signal.SIGSTOP)
            elif number != signal.SIGCHLD and not from_kernel:
                self._send(number)

    def _next(self) -> tuple[int, bool] | None:
        """The next signal, and whether it came from the kernel, which tells the command by itself."""
        if not hasattr(signal, "sigtimedwait"):  # macOS
            number = int(signal.sigwait(self._set))
            keys = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH)
            return number, number in keys and os.isatty(0)
        try:
            # The time limit is a safety net: a SIGCHLD that is merged with another is found all the same.
            info = signal.sigtimedwait(self._set, 5.0)
        except InterruptedError:
            return None
        return None if info is None else (info.si_signo, info.si_code == _SI_KERNEL)

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)

    def _reap(self) -> tuple[int, int | None] | None:
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return 1, None  # somebody else took its status
        if pid == 0:
            return None
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return 128 + number, number
        return os.WEXITSTATUS(status), None
