"""How the answers of `oomph snapshot` and `oomph trace` are shown: by where they go and by what was asked for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from oomph.report.snapshot.options import SnapshotOptions


class Shown(Protocol):
    """The options of a command line that both commands have."""

    @property
    def colour(self) -> str: ...
    @property
    def redact(self) -> bool: ...
    @property
    def show_all(self) -> bool: ...
    @property
    def verbose(self) -> bool: ...


def shown_with(request: Shown, output_format: str, *, to_file: bool) -> SnapshotOptions:
    """What the place that the answer goes to can show, and what was asked for."""
    from oomph.cli.terminal import DEFAULT_WIDTH, can_draw, use_colour, width
    from oomph.report.snapshot.options import SnapshotOptions

    colour = request.colour == "always" if to_file else use_colour(request.colour, sys.stdout)
    return SnapshotOptions(
        width=DEFAULT_WIDTH if to_file else width(),
        colour=colour and output_format == "text",
        redact=request.redact,
        unicode=to_file or can_draw(sys.stdout),
        everything=request.show_all,
        stacks=request.verbose,
    )
