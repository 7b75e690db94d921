"""Swap is in use."""

from __future__ import annotations

from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, CouldNotTell, NotHere, Problem, Severity
from oomph.units import GIB, format_bytes

#: Pages that nobody asks for rest in swap on any machine that is long up.
_LITTLE = GIB
_AVAILABLE_SHARE = 0.1


class SwapInUse(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV505"
    cause = "swap_in_use"
    name = "swap-in-use"
    means = (
        "Main memory has overflowed into swap. While it goes on, loading and offloading run at the speed of a disk. "
        "Old pages that stay there after a job has ended cost nothing."
    )
    decisive_evidence = (
        "More than 1 GiB of swap in use; with less than a tenth of RAM available, it still goes on."
    )
    first_action = "Look at `vmstat 1`: numbers under si and so say that it goes on. Find who uses the RAM."
    verify = "si and so stay at 0 during a step."
    wrong_advice = (
        "More swap so that a job fits: it only fails more slowly. Pinned memory cannot be swapped at all."
    )

    def check(self, asked: Asked) -> Answer:
        host = asked.environment.host
        if host.swap_bytes is None:
            return NotHere()
        if host.swap_bytes.value == 0:
            return Clear("the machine has no swap")
        if host.swap_free_bytes is None:
            return CouldNotTell("how much swap is in use: `free -b` tells it")
        used = host.swap_bytes.value - host.swap_free_bytes.value
        if used < _LITTLE:
            return Clear(
                f"{format_bytes(max(used, 0))} of {format_bytes(host.swap_bytes.value)} swap are in use"
            )
        pressed = (
            host.ram_bytes is not None
            and host.available_bytes is not None
            and host.available_bytes.value < _AVAILABLE_SHARE * host.ram_bytes.value
        )
        left = ""
        if host.available_bytes is not None:
            left = f"; {format_bytes(host.available_bytes.value)} of RAM are available"
        return (
            Problem(
                says=f"{format_bytes(used)} of {format_bytes(host.swap_bytes.value)} swap are in use{left}.",
                does="RAM is at its end, and what is touched waits for the disk."
                if pressed
                else "If `vmstat 1` shows no traffic, these are old pages, and they cost nothing.",
                fix="Find the processes that hold the RAM.",
                paste="vmstat 1 5; ps aux --sort=-rss | head",
                subject="swap",
                severity=Severity.WARNING if pressed else Severity.NOTE,
                numbers={"swap_used_bytes": used, "swap_bytes": host.swap_bytes.value},
                evidence=(host.swap_bytes.quote,),
            ),
        )
