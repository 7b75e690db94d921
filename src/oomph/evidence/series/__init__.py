"""Memory figures that jobs print while they run, as `MemorySample`s.

`parse(document)` runs one parser per family of printers. A line that a known printer wrote is not read again by the
free-form parser. The order is that of the text.
"""

from __future__ import annotations

from oomph.evidence.model import Document, MemorySample
from oomph.evidence.series import (
    csv_columns,
    deepspeed,
    detection,
    fairseq,
    generic,
    huggingface,
    litgpt,
    megatron,
    metric_keys,
    reports,
    torchtitan,
    torchtune,
    ultralytics,
)
from oomph.evidence.series.scan import Scan

_PRINTERS = (
    deepspeed.read,
    torchtitan.read,
    torchtune.read,
    megatron.read,
    huggingface.read,
    metric_keys.read,
    detection.read,
    ultralytics.read,
    fairseq.read,
    litgpt.read,
    reports.read,
    csv_columns.read,
)


def parse(document: Document, *, limit: int | None = None) -> list[MemorySample]:
    """The memory figures of a document, in the order of its lines; never raises on damaged text.

    With `limit`, about so many lines with figures are read: the first, the last, and the others evenly.
    """
    scan = Scan(document, limit)
    found: list[MemorySample] = []
    for printer in _PRINTERS:
        found.extend(printer(scan))
    claimed = {sample.position.line for sample in found}
    found.extend(generic.read(scan, claimed))
    found.sort(key=lambda sample: sample.position)
    return _distinct(found)


def _distinct(samples: list[MemorySample]) -> list[MemorySample]:
    """Without a figure that two printers' parsers took from the same line."""
    seen: set[tuple[int, str, int, int | None]] = set()
    kept: list[MemorySample] = []
    for sample in samples:
        key = (sample.position.line, sample.what, sample.value.bytes, sample.rank)
        if key not in seen:
            seen.add(key)
            kept.append(sample)
    return kept
