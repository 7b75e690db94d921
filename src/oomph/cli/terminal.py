"""What the place that output goes to can show: colour, width, characters."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import TextIO

#: Columns where nothing else is known: a pipe, a file, a CI log.
DEFAULT_WIDTH = 80

#: Every character outside ASCII that the text report draws with.
_DRAWN = "█▓▒░▏▎▍▌▋▊▉─│┌┐└┘├┤┬┴┼╭╮╰╯•·→…≥≤≈×–—"


def use_colour(choice: str, stream: TextIO | None, environment: Mapping[str, str] | None = None) -> bool:
    """Whether to colour. `choice` is auto, always or never.

    With auto: a non-empty NO_COLOR means no (https://no-color.org), then a FORCE_COLOR other than empty or 0 means
    yes, then TERM=dumb means no, then only a terminal is coloured.
    """
    if choice != "auto":
        return choice == "always"
    variables = os.environ if environment is None else environment
    if variables.get("NO_COLOR"):
        return False
    if variables.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream is not None and variables.get("TERM") != "dumb" and stream.isatty()


def width() -> int:
    """Columns of the terminal (or COLUMNS), between 40 and 100; 80 for a pipe."""
    return max(40, min(100, shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns))


def can_draw(stream: TextIO | None) -> bool:
    """Whether the stream's encoding has the characters that the text report draws with. A closed standard output
    (`>&-`) is None, and draws nothing."""
    if stream is None:
        return False
    try:
        _DRAWN.encode(stream.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True
