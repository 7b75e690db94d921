"""One parser a file: what people paste of a machine, each recognised by what stands in it.

A part of a text is first offered to the formats that take all of it (a manifest, a Dockerfile, a script, XML); else
every parser of single lines and tables looks at it, because one report holds many of them.
"""

from __future__ import annotations

from oomph.evidence.environment.formats import (
    clusters,
    collect_env,
    compose,
    dockerfile,
    driver_errors,
    host_memory,
    host_system,
    interfaces,
    kernel_log,
    machine_types,
    manifests,
    nccl_log,
    packages,
    processes,
    rdma,
    scontrol,
    scripts,
    smi_csv,
    smi_list,
    smi_query,
    smi_table,
    smi_xml,
    toolkits,
    torch_prints,
    variables,
)
from oomph.evidence.environment.found import Found
from oomph.evidence.environment.parts import Part

_WHOLE = (
    smi_xml.parse,
    dockerfile.parse,
    manifests.parse,
    compose.parse,
    clusters.parse,
    scripts.parse,
)
_LINES = (
    smi_query.parse,
    smi_table.parse,
    smi_list.parse,
    smi_csv.parse,
    driver_errors.parse,
    collect_env.parse,
    packages.parse,
    torch_prints.parse,
    variables.parse,
    interfaces.parse,
    rdma.parse,
    host_memory.parse,
    host_system.parse,
    kernel_log.parse,
    toolkits.parse,
    machine_types.parse,
    nccl_log.parse,
    processes.parse,
    scontrol.parse,
)


def parse_part(part: Part, found: Found, session: scripts.Session | None = None) -> None:
    """Everything that one part tells. `session` holds what the commands of its file set before."""
    for whole in _WHOLE:
        if whole(part, found):
            return
    (session or scripts.Session(part.source, found)).parse(part)
    for parse in _LINES:
        parse(part, found)
