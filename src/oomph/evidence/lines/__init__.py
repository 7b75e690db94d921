"""From decoded text to clean lines: colour codes, prefixes, quoting and markup removed, positions kept."""

from oomph.evidence.lines.document import build_document

__all__ = ["build_document"]
