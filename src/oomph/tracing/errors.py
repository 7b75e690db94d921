"""What a trace refuses."""

from __future__ import annotations

from oomph.errors import OomphError


class TraceRefused(OomphError):  # noqa: N818 - what happened, as Python's own StopIteration
    """The traced code asks for something that has no answer without a GPU. The text names it and says what to do."""
