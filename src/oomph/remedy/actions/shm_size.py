"""A bigger /dev/shm."""

from __future__ import annotations

import re

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action

_KUBERNETES = re.compile(r"\bkubectl\b|\bpod/|kubernetes|^kube", re.IGNORECASE)
_DOCKER = "df -h /dev/shm\ndocker run --shm-size=16g ...   # or --ipc=host"
_POD = (
    "volumes:\n  - name: shm\n    emptyDir: {medium: Memory, sizeLimit: 16Gi}\nvolumeMounts:   # of the "
    "container\n  - {name: shm, mountPath: /dev/shm}"
)


class ShmSize(Action):
    """--shm-size, --ipc=host, an emptyDir in memory."""

    code = "shm-size"
    title = "Make /dev/shm larger"

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        pod = case.text_anywhere(_KUBERNETES) is not None
        text = (
            "Data-loader workers hand over their tensors through /dev/shm, which a container gets only 64 "
            "MiB of by default. Look at its size where the job runs, then start the container with more. "
            "It counts as RAM while it is used."
        )
        return self.make(
            text,
            _POD if pod else _DOCKER,
            outcomes=(
                (
                    "If you may not change the container",
                    "num_workers=0 proves it; then fewer workers, or set_sharing_strategy('file_system')",
                ),
                (
                    "If /dev/shm is large and mostly empty",
                    "a memory-mapped file that was cut short or a full disk gives bus errors, too",
                ),
            ),
        )
