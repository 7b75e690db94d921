"""Files about a machine to an `Environment`: what people paste of it, recognised by content."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import BinaryIO

from oomph.errors import InputError
from oomph.evidence.environment.formats import parse_part
from oomph.evidence.environment.formats.scripts import Session
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.load import ALL_BYTES, Unread, load
from oomph.evidence.environment.model import Environment
from oomph.evidence.environment.parts import split
from oomph.evidence.sources import sniff
from oomph.evidence.sources.discover import discover

#: More files of folders are not opened.
MOST_FILES = 2_000

_WANTED = (
    "Give the output of nvidia-smi, nvidia-smi -q, python -m torch.utils.collect_env, env, pip list, ip addr or dmesg, "
    "a Dockerfile, a shell or Slurm script, a Kubernetes manifest, or a folder of such files."
)
_NOTHING = "it says nothing about a machine that is known here"


def read_environment(
    paths: Sequence[str | os.PathLike[str]], *, stdin: BinaryIO | None = None
) -> Environment:
    """What the files tell of one machine. Folders are walked; "-" is `stdin`.

    Two files that contradict each other are both kept: that is evidence. Raises InputError where a path does not
    exist, or where nothing at all can be read.
    """
    entries = discover(paths)
    found = Found()
    for note in entries.notes:
        found.note(note)
    passed_over: list[tuple[str, str]] = []
    budget = ALL_BYTES
    for number, entry in enumerate(entries.entries):
        if number >= MOST_FILES:
            found.note(f"only the first {MOST_FILES} of {len(entries.entries)} files were read")
            break
        document = load(entry.path, entry.name, stdin, budget)
        if isinstance(document, Unread):
            passed_over.append((entry.name, document.reason))
            continue
        budget -= document.size_bytes
        before = len(found.sources)
        session = Session(entry.name, found)
        for part in split(document):
            parse_part(part, found, session)
        if not any(source == entry.name for source, _ in found.sources[before:]):
            passed_over.append((entry.name, _why(document.lines[0].text if document.lines else "", document)))
            continue
        for note in document.notes:
            found.note(f"{entry.name}: {note}")
    if not found.sources:
        raise InputError(_refusal(passed_over))
    return found.environment(passed_over)


def _why(first: str, document: object) -> str:
    text = "\n".join(line.text for line in getattr(document, "lines", [])[:400])
    if sniff.is_source_code(text.encode("utf-8", "replace")) and not first.startswith("#!/bin"):
        return "it is source code: --script looks at that"
    return _NOTHING


def _refusal(passed_over: Sequence[tuple[str, str]]) -> str:
    shown = "; ".join(f"{name}: {reason}" for name, reason in passed_over[:3])
    more = f"; and {len(passed_over) - 3} more" if len(passed_over) > 3 else ""
    return f"Nothing about a machine can be read there ({shown}{more}). {_WANTED}"
