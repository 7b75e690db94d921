"""What goes wrong in the recorder itself: never the job's business, and said once."""

from __future__ import annotations

import sys
from collections.abc import Callable

#: After so many errors of its own the recorder takes its hooks away.
MOST_TROUBLES = 20


class Troubles:
    """Says a sentence once on stderr, and once in the record (`note`)."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._said: set[str] = set()
        self.count = 0
        #: Where sentences go beside stderr; set once there is a record.
        self.note: Callable[[str], None] | None = None

    def complain(self, sentence: str) -> None:
        """Says a sentence, unless it was said before."""
        if sentence in self._said or len(self._said) >= MOST_TROUBLES:
            return
        self._said.add(sentence)
        if self._rank == 0 or "rank" in sentence:
            say(sentence)
        else:
            say(f"rank {self._rank}: {sentence}")
        if self.note is not None:
            self.note(sentence)

    def caught(self, error: BaseException) -> bool:
        """One of the recorder's own errors; True where there were too many of them."""
        self.count += 1
        self.complain(
            f"recording: {type(error).__name__}: {str(error)[:300]}{_where(error)} (the job is not affected)"
        )
        return self.count >= MOST_TROUBLES


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


def say(sentence: str) -> None:
    """One line on stderr; where there is none, nothing."""
    try:
        sys.stderr.write(f"oomph: {' '.join(sentence.split())}\n")
        sys.stderr.flush()
    except Exception:  # noqa: BLE001 - a closed or broken stderr is no reason to end a job
        return
