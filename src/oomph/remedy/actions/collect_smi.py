"""Who holds the card."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action

_PASTE = {
    "cuda": (
        "nvidia-smi --query-gpu=timestamp,index,name,memory.total,memory.used,memory.free --format=csv -l "
        "1 > smi.csv &\nnvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv"
    ),
    "hip": "rocm-smi --showmeminfo vram --showpids",
    "xpu": "xpu-smi ps\nxpu-smi dump -d -1 -m 18 -i 1 > smi.csv &",
    "mps": 'python -c "import torch; print(torch.mps.recommended_max_memory())"\nvm_stat',
}


class CollectSmi(Action):
    """nvidia-smi (or its like) before and during the run."""

    code = "collect-smi"
    title = "Record what is on the card, before the start and up to the failure"

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        text = (
            "Run it on the host, not inside the container (there, other processes have no pid), from "
            "before the job starts until it has failed."
        )
        return self.make(text, _PASTE.get(case.failure.vendor, _PASTE["cuda"]))
