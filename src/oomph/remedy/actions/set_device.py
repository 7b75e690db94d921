"""One GPU per rank."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.units import format_bytes

_PASTE = (
    "import os, torch\n\n"
    'device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))\n'
    "torch.cuda.set_device(device)   # before any other CUDA call\n"
    'dist.init_process_group("nccl", device_id=device)\n'
    'model.to(device)                # not .to("cuda")'
)


class SetDevice(Action):
    """torch.cuda.set_device(LOCAL_RANK) first."""

    code = "set-device"
    title = "Give every rank its own GPU before its first CUDA call"

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        siblings = case.neighbours.of("sibling")
        device = case.failure.device if case.failure.device is not None else 0
        if siblings:
            held = case.neighbours.bytes_of("sibling")
            text = f"{len(siblings)} more ranks of this job hold {format_bytes(held)} of GPU {device}."
        else:
            text = f"Several ranks of this job are on GPU {device}."
        text += (
            ' A rank that never says which GPU is its own takes GPU 0. The usual places: `.to("cuda")` '
            "or `.cuda()` without an index, torch.load without map_location, a library that is set up "
            "before the device is."
        )
        if setup_of(case).dialect in ("transformers", "accelerate", "diffusers"):
            text += (
                " Trainer and Accelerator set the device themselves; look at what touches CUDA before they "
                "exist."
            )
        return self.make(
            text,
            _PASTE,
            outcomes=(
                (
                    "If nvidia-smi still lists several pids on one GPU",
                    "find the CUDA call that comes before set_device",
                ),
                (
                    "If LOCAL_RANK is not set",
                    "the launcher started plain processes: use torchrun, or SLURM_LOCALID under srun",
                ),
            ),
        )
