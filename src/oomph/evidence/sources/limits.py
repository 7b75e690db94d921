"""How much of the input is kept for reading line by line."""

from __future__ import annotations

from dataclasses import dataclass, replace

KIB = 1 << 10
MIB = 1 << 20

#: Every line costs time and memory of its own: a shorter one counts as so many bytes.
_LEAST_LINE = 80
#: What any file may keep: a rank's traceback and what follows it.
_LEAST_KEPT = 24 * KIB
_FIRST_FILES = 2
_FIRST_HEAD = 32 * KIB


def cost(text: bytes | str) -> int:
    """What `text` counts for in the bounds below: its length, or more where its lines are very short (a flood of empty
    lines). A carriage return starts a line too."""
    if isinstance(text, str):
        return max(len(text), _LEAST_LINE * (text.count("\n") + text.count("\r")))
    return max(len(text), _LEAST_LINE * (text.count(b"\n") + text.count(b"\r")))


@dataclass(frozen=True)
class Limits:
    """Bounds in bytes (as `cost` counts them) for one file.

    Files up to `whole` are kept whole. Of larger ones: the first `head`, the last `tail`, at most `samples` places of
    `sample` bytes spread over the rest, and the windows around triggers, whose sizes are divided by `shrink`;
    altogether at most `kept`. `chunk` is read at once. `all_files` is about what all inputs of a command together
    may keep, `files` how many there are: they share the patience with a literal that is everywhere.
    """

    whole: int = MIB
    head: int = 64 * KIB
    tail: int = 128 * KIB
    samples: int = 256
    sample: int = KIB
    shrink: int = 1
    kept: int = 6 * MIB
    chunk: int = 4 * MIB
    all_files: int = 20 * MIB
    files: int = 1

    def next_file(self, used: int, index: int, files: int) -> Limits:
        """The limits for file `index` of `files` when those before it kept `used` bytes.

        It may have up to four times its fair share, so that the few files with a failure get more than those that
        only say the same as others. The first files, rank 0's among them, show more of their beginning, where a
        job's settings are.
        """
        fair = max(0, self.all_files - used) // max(1, files - index)
        kept = min(self.kept, max(_LEAST_KEPT, 4 * fair))
        head = (
            max(self.head, min(_FIRST_HEAD, kept // 2)) if index < _FIRST_FILES and self.head else self.head
        )
        return replace(self, kept=kept, head=head)


def limits_for(files: int) -> Limits:
    """Limits for each of `files` inputs of one command.

    The more files there are, the smaller the part that each needs to show, because the ranks of one job say the same
    things.
    """

    def share(total: int, least: int, most: int) -> int:
        return max(least, min(most, total // max(1, files)))

    return Limits(
        whole=share(8 * MIB, 32 * KIB, MIB),
        head=share(2 * MIB, 2 * KIB, 64 * KIB),
        tail=share(4 * MIB, 6 * KIB, 128 * KIB),
        samples=share(1024, 4, 256),
        sample=KIB if files < 64 else KIB // 2,
        shrink=1 if files <= 8 else min(8, 1 + files // 16),
        chunk=4 * MIB if files < 16 else 256 * KIB,
        files=max(1, files),
    )


#: For files that look binary: only what stands around triggers.
def triggers_only(limits: Limits) -> Limits:
    """`limits` without the parts that are kept for their place alone."""
    return replace(limits, whole=0, head=0, tail=0, samples=0)
