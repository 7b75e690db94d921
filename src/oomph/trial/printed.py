"""What a trial printed, where its ranks recorded nothing that decides."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oomph.errors import OomphError

#: Bytes of the end of each stream in which the last error is looked for.
_TAIL = 64 << 10
#: "ValueError: text", "torch.distributed.DistBackendError: text", at a line's beginning or after "[rank0]: ".
_ERROR = re.compile(
    r"^(?:\[rank\d{1,6}\]:? ?)?((?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Exit)\b.{0,400})"
)


@dataclass(frozen=True)
class Printed:
    """`device_oom` and `host_oom`: the text of such a failure, "" without one. `error`: the last line that names an
    exception; `tail`: the end of what was printed."""

    device_oom: str = ""
    host_oom: str = ""
    phase: str = ""
    rank: int | None = None
    request_bytes: int | None = None
    capacity_bytes: int | None = None
    error: str = ""
    tail: str = ""


def printed_by(paths: Sequence[Path]) -> Printed:
    """What the files say, as `oomph explain` reads them. Raises nothing."""
    tail = "\n".join(_end(path) for path in paths)
    error = ""
    for line in tail.splitlines():
        match = _ERROR.match(line)
        if match is not None:
            error = match[1]
    failure = _failure(paths)
    if failure is None:
        return Printed(error=error, tail=tail)
    return Printed(**{**failure, "error": error, "tail": tail})  # type: ignore[arg-type] # fields of its own


def _failure(paths: Sequence[Path]) -> dict[str, object] | None:
    """The fields of `Printed` that a failure for lack of memory gives."""
    from oomph.diagnose.engine import diagnose
    from oomph.diagnose.model import Outcome
    from oomph.evidence.model import Kind
    from oomph.evidence.read import read

    with contextlib.suppress(OomphError, OSError):
        diagnosis, case = diagnose(read([str(path) for path in paths]))
        incident = diagnosis.incident
        if incident is None or case is None or diagnosis.outcome is not Outcome.FAILED:
            return None
        text = " ".join(incident.failure.quote.text.split())[:300]
        kind = incident.failure.kind
        if kind in (Kind.HOST_OOM, Kind.SHM):
            return {"host_oom": text}
        if kind not in (Kind.DEVICE_OOM, Kind.DEVICE_OOM_BARE, Kind.NCCL_OOM, Kind.UNIFIED_OOM):
            return None
        phase = "" if incident.phase.evidence == "none" else incident.phase.phase.value
        ledger = incident.ledger
        return {
            "device_oom": text,
            "phase": "" if phase == "unknown" else phase,
            "rank": incident.rank,
            "request_bytes": ledger.request_bytes,
            "capacity_bytes": ledger.capacity_bytes,
        }
    return None


def _end(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
