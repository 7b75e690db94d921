"""`oomph explain --follow`: wait until a growing log shows a failure, then explain."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from oomph.errors import InputError, UsageError

if TYPE_CHECKING:
    from oomph.diagnose.model import Diagnosis
    from oomph.evidence.sources.follow import Follower

#: Seconds between two looks at the files.
POLL_SECONDS = 0.5
#: A traceback, the launcher's table and the other ranks' last words come in bursts: this long without new text, and
#: the failure is told.
SETTLE_SECONDS = 3.0
#: A job that goes on printing (other ranks, a restart) is explained this long after the first sign all the same.
PATIENCE_SECONDS = 30.0
#: Explaining may take at most one part in this many of the time: large logs are not read again and again.
_SHARE = 10
#: Longer than any sign, so that one cut in two by a poll is found.
_OVERLAP = 64


class Say(Protocol):
    """A sentence to the user."""

    def __call__(self, sentence: str, *, important: bool = False) -> None: ...


class Watch:
    """Watches files until `explain` finds that the job failed.

    `explain` reads the files anew each time. `say` gets a sentence for the user now and then, with `important=True`
    one without which the user would wait in vain. `clock` and `sleep` are those of `time`.
    """

    def __init__(
        self,
        paths: Sequence[str],
        explain: Callable[[], Diagnosis],
        say: Say,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        for path in paths:
            if path == "-":
                raise UsageError("--follow watches files; standard input is read to its end without it")
            if Path(path).is_dir():
                raise UsageError(f"--follow watches files; {path} is a folder: name the logs in it")
        self._paths = paths
        self._explain = explain
        self._say = say
        self._clock = clock
        self._sleep = sleep
        self._not_before = 0.0
        self._may_have_finished = False
        self._last: Diagnosis | None = None
        self._signs = _signs()
        self._ends = _ends()

    def run(self) -> Diagnosis:
        """Returns the diagnosis of the failure, or of a job that says that it finished; goes on for ever while there
        is neither."""
        from oomph.evidence.sources.follow import Follower

        sizes = [_size(path) for path in self._paths]
        if any(sizes):
            diagnosis = self._look()
            if diagnosis is not None:
                return diagnosis
            self._may_have_finished = self._says_finished()
        missing = [path for path in self._paths if not Path(path).exists()]
        if missing:
            verb = "does not exist" if len(missing) == 1 else "do not exist"
            self._say(f"{', '.join(missing)} {verb} yet: waiting; Ctrl-C ends it", important=True)
        else:
            self._say(f"watching {', '.join(self._paths)}; Ctrl-C ends it")
        with ExitStack() as stack:
            followers = [
                stack.enter_context(Follower(path, start=size))
                for path, size in zip(self._paths, sizes, strict=True)
            ]
            return self._wait(followers)

    def _wait(self, followers: list[Follower]) -> Diagnosis:
        tails = [""] * len(followers)
        first_sign: float | None = None
        last_text = self._clock()
        while True:
            for number, follower in enumerate(followers):
                text = (follower.poll() or "") + follower.rest()
                if not text:
                    continue
                last_text = self._clock()
                text = tails[number] + text
                if first_sign is None and any(sign in text for sign in self._signs):
                    first_sign = last_text
                lower = text.lower()
                self._may_have_finished |= any(end in lower for end in self._ends)
                tails[number] = text[-_OVERLAP:]
            if first_sign is not None and self._due(first_sign, last_text):
                diagnosis = self._look()
                if diagnosis is not None:
                    return diagnosis
                first_sign = None
            elif first_sign is None and self._may_have_finished and self._due(last_text, last_text):
                self._may_have_finished = False
                diagnosis = self._finished()
                if diagnosis is not None:
                    return diagnosis
            self._sleep(POLL_SECONDS)

    def _due(self, first_sign: float, last_text: float) -> bool:
        now = self._clock()
        settled = now - last_text >= SETTLE_SECONDS or now - first_sign >= PATIENCE_SECONDS
        return settled and now >= self._not_before

    def _finished(self) -> Diagnosis | None:
        """The diagnosis if the job ended, well or not."""
        diagnosis = self._look()
        return self._last if diagnosis is None and self._says_finished() else diagnosis

    def _says_finished(self) -> bool:
        return self._last is not None and bool(self._last.evidence.facts_named("success"))

    def _look(self) -> Diagnosis | None:
        """The diagnosis if it is one of a failed job."""
        from oomph.diagnose.model import Outcome

        started = self._clock()
        self._last = None
        try:
            diagnosis = self._last = self._explain()
        except InputError:  # only a few bytes yet, or the file was just rotated away
            return None
        finally:
            self._not_before = self._clock() + (self._clock() - started) * _SHARE
        if diagnosis.outcome is Outcome.FAILED:
            return diagnosis
        if diagnosis.outcome is Outcome.RECOVERED:
            self._say("ran out of memory and went on; still watching")
        return None


def _signs() -> tuple[str, ...]:
    """Texts without which a log has no failure for lack of memory; most are harmless, so explaining decides."""
    from oomph.evidence.sources.triggers import TRIGGERS

    return tuple(
        literal.decode("ascii") for literal, window in TRIGGERS if window.name in ("failure", "suspect")
    )


def _ends() -> tuple[str, ...]:
    """Texts, in small letters, without which no line says that the job ended well."""
    from oomph.evidence.facts.success import PRINTER

    return PRINTER.words


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except (OSError, ValueError):
        return 0
