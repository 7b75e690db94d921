"""Prints the table of docs/kernels.md."""

from __future__ import annotations

import sys

from oomph.tracing.kernels.document import table

if __name__ == "__main__":
    sys.stdout.write(table())
