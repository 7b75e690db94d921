"""NCCL's tuning variables beside allocator settings: none of them frees memory of PyTorch."""

from __future__ import annotations

from oomph.diagnose.machine.alloc_settings import NAMES
from oomph.diagnose.machine.base import Check
from oomph.diagnose.machine.model import Answer, Asked, Clear, NotHere, Problem, Severity
from oomph.diagnose.machine.settings import in_effect
from oomph.evidence.environment.model import Variable
from oomph.hardware.nccl import family_of

#: What each does to memory, after NCCL's sources.
_EFFECTS = {
    "NCCL_ALGO": "the algorithm does not limit how much runs at once",
    "NCCL_PROTO": "buffers of a protocol that is left out are allocated all the same",
    "NCCL_NSOCKS_PERTHREAD": "it counts TCP sockets, in host memory",
    "NCCL_SOCKET_NTHREADS": "it counts CPU threads of TCP connections",
    "NCCL_BUFFSIZE": "it sizes NCCL's own buffers, tens of MiB outside PyTorch's allocator",
    "NCCL_NTHREADS": "it counts CUDA threads",
    "NCCL_CROSS_NIC": "it chooses network cards",
}
#: A plugin's profile sets several of these for speed: then they are no attempt at memory.
_PROFILES = (
    "NCCL_FASTRAK_",
    "NCCL_GPUDIRECTTCPX_",
    "NCCL_SHIMNET_",
    "NCCL_TUNER_CONFIG_PATH",
    "FI_",
    "OFI_NCCL_",
)


class NcclFreesNoMemory(Check):
    """See the class attributes: they are the check's documentation."""

    code = "ENV407"
    cause = "nccl_variable_frees_no_memory"
    name = "nccl-variable-frees-no-memory"
    means = (
        "Variables that tune NCCL's speed are passed on as cures for fragmentation or out-of-memory. NCCL takes its "
        "memory from CUDA, not from PyTorch's allocator, and none of these variables touches the latter. What does "
        "save NCCL's memory: fewer channels (NCCL_MAX_NCHANNELS), no NVLS buffers (NCCL_NVLS_ENABLE=0), fewer process "
        "groups."
    )
    decisive_evidence = (
        "Such a variable is set together with allocator settings, and no network plugin's profile is."
    )
    first_action = "Remove them, one at a time, and measure the step time."
    verify = "torch.cuda.memory_stats() has the same peak without them."
    wrong_advice = "NCCL_ALGO=Tree or NCCL_NSOCKS_PERTHREAD=1 against fragmentation."

    def check(self, asked: Asked) -> Answer:
        environment = asked.environment
        found = [one for one in in_effect(environment, "NCCL_") if one.name in _EFFECTS]
        allocator = [one for one in in_effect(environment) if one.name in NAMES and one.value != ""]
        if not found or not allocator:
            return NotHere()
        profile = next((one for one in environment.variables if one.name.startswith(_PROFILES)), None)
        if profile is not None:
            whose = family_of(profile.name) or "a network plugin"
            return Clear(f"NCCL's variables belong to the profile of {whose} ({profile.name} is set)")
        by_name: dict[str, Variable] = {}
        for one in found:
            by_name.setdefault(one.name, one)
        return (
            Problem(
                says=f"{', '.join(by_name)}: set beside {allocator[0].name}, and none frees memory of PyTorch.",
                does="; ".join(f"{name}: {_EFFECTS[name]}" for name in by_name) + ".",
                fix="Remove them unless a measurement says that they make the job faster.",
                paste=f"unset {' '.join(by_name)}",
                subject=next(iter(by_name)),
                severity=Severity.NOTE,
                evidence=tuple(dict.fromkeys(one.quote for one in (*by_name.values(), allocator[0]))),
            ),
        )
