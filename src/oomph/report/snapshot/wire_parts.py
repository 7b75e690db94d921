"""What several parts of the JSON document of `oomph snapshot` have in common."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from oomph.report.wire import Strict

Category = Literal[
    "parameters",
    "gradients",
    "optimizer state",
    "activations",
    "temporaries",
    "communication",
    "workspace",
    "unknown",
]

#: A call stack: its place in `stacks` of the document; null where none was recorded.
Stack = Annotated[int | None, Meta(description="Place in `stacks` of the document; null: none was recorded.")]


class Frame(Strict):
    """One frame of a call stack. C++ frames have line 0."""

    function: str
    file: str
    line: int
