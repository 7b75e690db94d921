"""Golden files: whole outputs that were read and found right.

`OOMPH_UPDATE_GOLDEN=1 pytest tests/report` writes them anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def assert_golden(name: str, text: str) -> None:
    """Fails where `text` is not what the golden file `name` holds."""
    path = FOLDER / name
    if os.environ.get("OOMPH_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8", newline="\n")
    assert text == path.read_text(encoding="utf-8")
