"""The file system that data-loader workers hand batches over in is too small."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Certainty
from oomph.diagnose.rules.base import Match, Rule
from oomph.evidence.model import Kind, Quote

_NAMES_IT = re.compile(r"shared memory|/dev/shm|\(shm\)|shm_open|torch_shm", re.IGNORECASE)
_FILES = re.compile(r"Too many open files|\(24\)")
_NEAR = 6


class SharedMemory(Rule):
    """A bus error in a worker, or a shared-memory object that could not be made."""

    code = "OOM502"
    cause = "shm"
    name = "shared-memory-is-too-small"
    means = (
        "Data-loader workers hand tensors to the training process through files in /dev/shm, a file system "
        "in RAM with a size of its own. A container gets 64 MiB of it by default. When it is full, "
        "touching a new page is a bus error and the worker dies. It is neither GPU memory nor, as a rule, "
        "a lack of RAM."
    )
    decisive_evidence = (
        "`DataLoader worker ... is killed by signal: Bus error`, usually with PyTorch's remark about "
        "shared memory, or an error that names /dev/shm or a shared-memory object. A bus error without "
        "that remark can also come from a memory-mapped file that was cut short or from a full disk."
    )
    first_action = (
        "Give the container or pod a bigger /dev/shm (`--shm-size`, `--ipc=host`, a Memory volume)."
    )
    verify = "`df -h /dev/shm` inside the container shows the new size, and stays below it during an epoch."
    wrong_advice = (
        "Anything about GPU memory. Asking for more RAM alone does not help either: the size of /dev/shm "
        "is set apart from the container's memory limit."
    )
    actions = ("shm-size", "collect-kernel-log")

    def check(self, case: Case) -> Match | None:
        """Certain where the text names shared memory, likely for a bus error alone."""
        if case.kind is not Kind.SHM:
            return None
        if case.failure.format == "S2_bus_error":
            return self._bus_error(case)
        near = _near(case)
        if any(_FILES.search(quote.text) for quote in near):
            says = (
                "A shared-memory object could not be opened because the process has too many open files: "
                "the limit on file descriptors, not the size of /dev/shm, may be what ran out."
            )
            return Match(Certainty.POSSIBLE, says, 0.6)
        named = next((quote for quote in near if _NAMES_IT.search(quote.text)), None)
        if named is not None:
            says = (
                "The text itself names shared memory (/dev/shm), through which data-loader workers hand "
                "over batches."
            )
            evidence = (case.failure.quote,) if named == case.failure.quote else (case.failure.quote, named)
            return Match(Certainty.CERTAIN, says, 0.8, evidence=evidence)
        says = "A data-loader worker died of a bus error, which is what a full /dev/shm looks like to it."
        return Match(Certainty.LIKELY, says, 0.7)

    def _bus_error(self, case: Case) -> Match:
        """SIGBUS as a launcher or a shell reports it."""
        if "alone" in case.failure.detail:
            return Match(
                Certainty.POSSIBLE,
                "A process died of a bus error (SIGBUS). A full /dev/shm does that to data-loader workers and to "
                "NCCL; so do a memory-mapped file that was cut short and a full disk. This log does not say which.",
                weight=0.6,
            )
        return Match(
            Certainty.LIKELY, "A process died of a bus error (SIGBUS), and /dev/shm was full.", weight=0.75
        )


def _near(case: Case) -> list[Quote]:
    """The failure's lines and the few around each of its prints."""
    found: list[Quote] = []
    for one in case.group.prints:
        document = case.evidence.documents[one.position.document]
        low = max(0, one.position.line - _NEAR)
        high = min(len(document.lines), one.end.line + _NEAR + 1)
        found.append(one.quote)
        found += [document.quote(index) for index in range(low, high)]
    return found
