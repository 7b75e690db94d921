"""The code of a Jupyter notebook, as one script whose lines are still known by their cells."""

from __future__ import annotations

import json

from oomph.errors import InputError
from oomph.evidence.script.source import Script


def read_notebook(name: str, text: str) -> Script:
    """Code cells one after the other; lines that are IPython's (%magic, !shell) become comments, cells of another
    language (%%bash) too. Raises InputError where the file is no notebook."""
    try:
        data = json.loads(text)
        cells = data["cells"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{name} is no notebook that can be read: it is not JSON with cells.") from error
    lines: list[str] = []
    places: list[tuple[str, int]] = []
    for number, cell in enumerate(cells if isinstance(cells, list) else [], 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        code = "".join(source) if isinstance(source, list) else str(source)
        foreign = code.lstrip().startswith("%%") and not code.lstrip().startswith(("%%time", "%%capture"))
        for line, one in enumerate(code.splitlines(), 1):
            magic = one.lstrip().startswith(("%", "!", "?")) or one.rstrip().endswith("?")
            blank = len(one) - len(one.lstrip())
            lines.append(one[:blank] + "pass  # " + one[blank:] if magic and not foreign else one)
            if foreign:
                lines[-1] = "# " + one
            places.append((f"cell {number}", line))
    return Script(name, "\n".join(lines) + "\n", tuple(places))
