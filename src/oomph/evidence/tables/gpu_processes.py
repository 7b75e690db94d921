"""torch.cuda.list_gpu_processes() (torch/cuda/memory.py).

"GPU:0" and beneath it "process      12345 uses     1234.000 MB GPU memory" per process; MB is 1024*1024 bytes. The
name of the process is not printed.
"""

from __future__ import annotations

import re

from oomph.evidence.model import Document, GpuProcess
from oomph.units import amount

_GPU = re.compile(r"(?:^|\s)(?:GPU|XPU):([0-9]{1,3})\s*\Z")
_PROCESS = re.compile(
    r"process\s{1,12}([0-9]{1,10}) uses\s{1,14}([0-9]{1,12}\.[0-9]{1,6}) MB (?:GPU|XPU) memory"
)


def parse_processes(document: Document) -> list[GpuProcess]:
    """The processes under the nearest "GPU:N" line above; a process without one is left out."""
    found: list[GpuProcess] = []
    gpu: dict[str, int] = {}
    for index, line in enumerate(document.lines):
        text = line.text
        if "PU:" in text:
            head = _GPU.search(text[:200])
            if head is not None:
                gpu[line.stream] = int(head[1])
                continue
        if " uses " not in text or line.stream not in gpu:
            continue
        match = _PROCESS.search(text[:400])
        if match is not None:
            used = amount(match[2], "MiB")
            found.append(GpuProcess(gpu[line.stream], int(match[1]), "", used, document.quote(index)))
    return found
