"""What goes wrong when a program is made."""

from __future__ import annotations

from oomph.errors import OomphError


class ProgramError(OomphError):
    """A model whose forward pass cannot be written as a program; the sentence says why."""
