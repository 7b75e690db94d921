"""`scontrol show job` and `scontrol show node`: what a job was given, and what a node has."""

from __future__ import annotations

import re

from oomph.evidence.environment.formats import slurm_options
from oomph.evidence.environment.formats.values import suffixed, whole
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.model import Launch
from oomph.evidence.environment.parts import Part
from oomph.evidence.model import Quote

_RECORD = re.compile(r"\s{0,4}(JobId|NodeName)=\S")
_FIELD = re.compile(r"(?<!\S)([A-Z][A-Za-z/:]{1,40})=(\S{0,2000})")
_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d{1,6})(?:,|$)")
_MEMORY = re.compile(r"(?:^|,)mem=(\d[\d.]{0,15}[KMGTP]?)(?:,|$)")


def parse(part: Part, found: Found) -> None:
    """Launches of jobs; processors and RAM of nodes."""
    kind = ""
    fields: dict[str, str] = {}
    first: Quote | None = None
    for line in part.lines:
        text = line.text
        if len(text) > 8_000:
            continue
        record = _RECORD.match(text)
        if record is not None:
            _finish(part, found, kind, fields, first)
            kind, fields, first = record[1], {}, part.quote(line)
        elif not text[:1].isspace() and kind:
            _finish(part, found, kind, fields, first)
            kind, fields, first = "", {}, None
        if kind:
            for name, value in _FIELD.findall(text):
                fields.setdefault(name, value)
    _finish(part, found, kind, fields, first)


def _finish(part: Part, found: Found, kind: str, fields: dict[str, str], quote: Quote | None) -> None:
    if quote is None or len(fields) < 4:
        return
    if kind == "NodeName":
        found.take(part.source, "scontrol show node")
        cpus, ram = whole(fields.get("CPUTot")), suffixed(fields.get("RealMemory"), default="m")
        if cpus:
            found.add_host("vcpus", cpus, quote)
        if ram:
            found.add_host("ram_bytes", ram, quote)
        return
    nodes = whole(fields.get("NumNodes"))
    tres = fields.get("AllocTRES") or fields.get("TRES") or fields.get("ReqTRES") or ""
    gpus, memory = _GPUS.search(tres), _MEMORY.search(tres)
    tasks = whole(fields.get("NumTasks"))
    per_node = whole(fields.get("NtasksPerN:B:S:C"))
    all_memory = suffixed(memory[1], default="m") if memory is not None else None
    found.take(part.source, "scontrol show job")
    found.add_launch(
        Launch(
            quote=quote,
            program="sbatch",
            nodes=nodes,
            processes=per_node or _share(tasks, nodes),
            gpus=_share(int(gpus[1]), nodes) if gpus is not None else None,
            memory_bytes=_share(all_memory, nodes),
        )
    )
    name, _, _ = (fields.get("TresPerNode") or "").partition(" ")
    _, model = slurm_options.counted(name.replace("gres/", "").replace("gres:", ""))
    if model:
        found.add("expected_gpus", model, quote)


def _share(total: int | None, nodes: int | None) -> int | None:
    """One node's part, where all have the same."""
    return total // nodes if total is not None and nodes and total % nodes == 0 else None
