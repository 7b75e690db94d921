"""One stream of several ranks, taken apart by the prefixes that launchers print before each line.

    [default0]:text        torchrun --tee (role and local rank; the role is "default" or what --role says)
    [rank0]:text           PyTorch's own prefix before tracebacks (global rank)
    [1,0]<stdout>:text     mpirun --tag-output (global rank)
    0: text                srun --label (global rank), only where Slurm says that there are several tasks

What has no prefix is in the whole output only.
"""

from __future__ import annotations

import re
from collections.abc import Callable

#: A longer line is written in pieces to the rank that it began with.
_LONGEST = 1 << 20
_PREFIX = re.compile(
    rb"\[(?:rank(\d{1,6})|([A-Za-z](?:[\w-]{0,40}[A-Za-z_-])?)(\d{1,6})|\d{1,6},(\d{1,6}))\](?:<std(?:out|err)>)?: ?"
)
_LABEL = re.compile(rb" {0,6}(\d{1,6}): ")


class Splitter:
    """Takes the bytes of a stream as they come; `write(rank, line)` gets each line that has a prefix, without it.

    `global_rank(local)` says which rank a local rank of this host is, None where nobody knows. `labels`: lines of srun
    --label count.
    """

    def __init__(
        self,
        write: Callable[[int, bytes], None],
        global_rank: Callable[[int], int | None],
        *,
        role: str = "default",
        labels: bool = False,
    ) -> None:
        self._write = write
        self._global_rank = global_rank
        self._role = role.encode()
        self._labels = labels
        self._rest = b""
        self._open: int | None = None  # the rank whose line was too long to be kept whole

    def feed(self, data: bytes) -> None:
        """Takes in the next bytes."""
        data = self._rest + data
        if self._open is None and not self._labels and b"]" not in data:
            self._rest = data[data.rfind(b"\n") + 1 :][:_LONGEST]
            return
        lines = data.split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._line(line + b"\n")
        if len(self._rest) > _LONGEST:
            self._piece()

    def _line(self, line: bytes) -> None:
        if self._open is not None:
            rank, self._open = self._open, None
            self._write(rank, line)
            return
        found = self._of(line)
        if found is not None:
            self._write(found[0], line[found[1] :])

    def _piece(self) -> None:
        """The beginning of a line that does not end."""
        if self._open is None:
            found = self._of(self._rest)
            if found is not None:
                self._open = found[0]
                self._write(found[0], self._rest[found[1] :])
        else:
            self._write(self._open, self._rest)
        self._rest = b"" if self._open is not None else self._rest[:64]

    def _of(self, line: bytes) -> tuple[int, int] | None:
        """The rank of a line and the length of its prefix."""
        match = _PREFIX.match(line)
        if match is not None:
            number = match[1] or match[4]
            if number is None and match[2] != self._role:
                return None  # somebody's own brackets: [step3]: ...
            rank = int(number) if number is not None else self._global_rank(int(match[3]))
            return None if rank is None else (rank, match.end())
        label = _LABEL.match(line) if self._labels else None
        return (int(label[1]), label.end()) if label is not None else None

    def close(self) -> None:
        """What is left without a line's end is a line."""
        if self._rest:
            self._line(self._rest)
            self._rest = b""
