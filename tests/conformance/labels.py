"""The labels of a folder of logs: `expect.jsonl`, one JSON object per log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class FolderError(Exception):
    """The folder cannot be judged; the text is one sentence for the user."""


@dataclass(frozen=True)
class Label:
    """What is expected of one log. `numbers` are bytes by name, None where the message does not print the value.

    `must_not_report`: no device out-of-memory may be reported as the failure. `ends_well`: the job did not die of
    its out-of-memory errors (the label says recovered or exit_ok).
    """

    log: str
    path: Path
    format: str
    numbers: Mapping[str, int | None] = field(default_factory=dict)
    rank: int | None = None
    first_failing_rank: int | None = None
    phase: str = "unknown"
    phase_evidence: str = "none"
    cause: str = ""
    confidence: str = "low"
    alternatives: frozenset[str] = frozenset()
    must_not_report: bool = False
    ends_well: bool = False
    caught: bool = False

    @property
    def causes(self) -> frozenset[str]:
        """The causes that count as right."""
        return self.alternatives | {self.cause}

    @property
    def must_report(self) -> bool:
        """True where the job died of a lack of memory, so that anything but a failure is a miss."""
        quiet = self.must_not_report or self.ends_well or self.caught
        return not quiet and self.cause != "not_an_oom"


def load(folder: Path) -> list[Label]:
    """The labels of `folder`, in the order of the file. Raises FolderError with one sentence."""
    if not folder.is_dir():
        raise FolderError(f"There is no folder {folder}.")
    expect = folder / "expect.jsonl"
    if not expect.is_file():
        raise FolderError(f"{folder} has no expect.jsonl: it should hold one JSON object per log.")
    if not (folder / "logs").is_dir():
        raise FolderError(f"{folder} has no logs folder: it should hold the files that expect.jsonl names.")
    labels = []
    for number, row in enumerate(expect.read_text("utf-8").splitlines(), start=1):
        if row.strip():
            labels.append(_label(folder, number, row))
    if not labels:
        raise FolderError(f"{expect} is empty: it should hold one JSON object per log.")
    return labels


def _label(folder: Path, number: int, row: str) -> Label:
    try:
        raw = json.loads(row)
        label = _from_json(folder, raw)
    except (ValueError, KeyError, TypeError) as error:
        raise FolderError(f"{folder / 'expect.jsonl'} line {number} is not a label: {error!r}.") from error
    if not label.path.exists():
        raise FolderError(f"expect.jsonl line {number} names {label.path}, which does not exist.")
    return label


def _from_json(folder: Path, raw: Mapping[str, Any]) -> Label:
    return Label(
        log=raw["log"],
        path=folder / "logs" / raw["log"],
        format=raw["format"],
        numbers=dict(raw.get("numbers") or {}),
        rank=raw.get("rank"),
        first_failing_rank=raw.get("first_failing_rank"),
        phase=raw["phase"],
        phase_evidence=raw["phase_evidence"],
        cause=raw["cause"],
        confidence=raw["cause_confidence"],
        alternatives=frozenset(raw.get("alt_causes") or ()),
        must_not_report=bool(raw.get("must_not_report")),
        ends_well=bool(raw.get("exit_ok")) or bool(raw.get("recovered")),
        caught=bool(raw.get("caught")),
    )
