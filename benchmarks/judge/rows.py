"""Rows of a file of measured points (one JSON object a line; the schema is that of the points' SCHEMA.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oomph.errors import InputError

#: The counters that rows may hold.
METRICS = ("max_allocated", "end_allocated", "max_active", "max_reserved", "nvml_device")
OUTCOMES = ("oom", "fits")
#: What the schema has. Other keys are not handed on; each row says which it had.
_KEYS = frozenset(
    (
        *("id", "source", "trust", "model", "gpu", "num_gpus", "parallel", "method", "lora", "quantization"),
        *("precision", "optimizer", "checkpointing", "activation_offload", "attention", "loss", "compile"),
        *("micro_batch", "seq_len", "image_size", "grad_accum", "metric", "value_bytes", "outcome"),
        *("uncertainty", "framework", "inferred"),
    )
)


@dataclass(frozen=True)
class Row:
    """One measured point. `measured` is in bytes (None where only an outcome is known); `outcome` is "oom", "fits" or
    None; `raw` is the object as read, without the keys that the schema does not have (`ignored`); `problem` says why
    the row cannot be used, None where it can."""

    id: str
    source: str
    metric: str = ""
    measured: int | None = None
    outcome: str | None = None
    gpu: str = ""
    uncertainty: str = ""
    raw: dict[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def title(self) -> str:
        """The source without the file or issue that it names in brackets."""
        return self.source.split(" [")[0]

    @property
    def publication(self) -> str:
        """The source without the tables that it is made of: what one author measured with one program."""
        return self.title.split(" (")[0]

    @property
    def extrapolated(self) -> bool:
        """Whether nobody saw the OOM: it follows from smaller runs."""
        return self.outcome == "oom" and "extrapolat" in self.uncertainty.lower()


def read(path: Path) -> list[Row]:
    """All rows of a file, in order. A line that is no usable row is a row with a `problem`: none is dropped.

    Raises InputError when there is no such file, or nothing in it.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    rows = [_row(line, number) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise InputError(f"{path} holds no rows.")
    return rows


def _row(line: str, number: int) -> Row:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):
        return Row(f"line {number}", "", problem=f"line {number} is not JSON.")
    if not isinstance(raw, dict):
        return Row(f"line {number}", "", problem=f"line {number} is not a JSON object.")
    row = Row(
        id=_text(raw.get("id")) or f"line {number}",
        source=_text(raw.get("source")),
        metric=_text(raw.get("metric")),
        measured=_size(raw.get("value_bytes")),
        outcome=_text(raw.get("outcome")) or None,
        gpu=_text(raw.get("gpu")),
        uncertainty=_text(raw.get("uncertainty")),
        raw={key: value for key, value in raw.items() if key in _KEYS},
        ignored=tuple(key for key in raw if key not in _KEYS),
    )
    return row if (wrong := _wrong(row)) is None else Row(**{**row.__dict__, "problem": wrong})


def _wrong(row: Row) -> str | None:
    """What is wrong with a row, as a sentence."""
    if row.outcome is not None and row.outcome not in OUTCOMES:
        return f"its outcome is {row.outcome!r}: known are {', '.join(OUTCOMES)}."
    if row.metric not in METRICS:
        return f"its metric is {row.metric!r}: known are {', '.join(METRICS)}."
    if row.measured is None and row.outcome is None:
        return "it has neither a measured size (value_bytes, an integer above 0) nor an outcome."
    model = row.raw.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("config"), str):
        return "it names no file with its model's configuration (model.config)."
    return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _size(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 < value < 2**62 and value == int(value) else None
