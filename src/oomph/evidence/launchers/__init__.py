"""How processes ended, as launchers, schedulers, shells and the kernel say it. One module per printer."""

from __future__ import annotations

from oomph.evidence.facts.scan import Scanner
from oomph.evidence.launchers import (
    accelerate,
    composer,
    deepspeed,
    kernel,
    mpi,
    ray,
    shell,
    slurm,
    spawn,
    torchelastic,
)
from oomph.evidence.launchers.signals import signal_of
from oomph.evidence.model import Document, ProcessExit

__all__ = ["parse", "signal_of"]

_SCANNER = Scanner(
    (
        torchelastic.PRINTER,
        deepspeed.PRINTER,
        accelerate.PRINTER,
        composer.PRINTER,
        slurm.PRINTER,
        mpi.PRINTER,
        spawn.PRINTER,
        kernel.PRINTER,
        ray.PRINTER,
        shell.PRINTER,
    )
)


def parse(document: Document) -> list[ProcessExit]:
    """All process ends of one document in the order of its lines. Never raises on any text.

    One process may be reported by several lines (torchrun's "failed (exitcode: ..)" line and its table): each gives
    an entry, tied together by the pid. Codes are as printed: see `signal_of` for 137.
    """
    return sorted(_SCANNER.run(document), key=lambda end: end.position)
