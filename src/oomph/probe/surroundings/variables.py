"""The environment variables that a check may look at, of this process or of a running one. Of all others not even the
name leaves this file: an environment has tokens and passwords in it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from oomph.probe.surroundings.seen import ROOT, Untold, under

#: Names that say something of devices, allocators, communication or of where a process stands in its job. Misspelt ones
#: have to be seen too, wherever in a name the word is.
_ASKED = re.compile(
    r"nccl|ncll|ncc?l_|cuda|torch|alloc_?conf|^(?:NVIDIA|LD|GLOO|UCX|FI|HIP|ROCR|HSA|OMPI|PMI|PMIX|SLURM|MASTER|RDZV"
    r"|TORCHELASTIC|ACCELERATE|DS|DEEPSPEED|FSDP|MKL|OMP|VLLM|SHARP|IBV|MLX5|RDMAV)_"
    r"|^(?:(?:LOCAL_|GROUP_|NODE_)?RANK|(?:LOCAL_)?WORLD_SIZE|KUBERNETES_SERVICE_HOST|WSL_DISTRO_NAME"
    r"|(?:APPTAINER|SINGULARITY)_CONTAINER)$",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"token|secret|passw|credential|api_?key|private|auth(?!or)|cookie|session|_key\b", re.IGNORECASE
)
_LARGEST = 1 << 22


def asked_for(name: str) -> bool:
    """Whether a check may look at this variable, and its value may be shown."""
    return bool(_ASKED.search(name)) and not _SECRET.search(name)


def environment(root: Path = ROOT, pid: int | None = None) -> Mapping[str, str] | Untold:
    """All variables of this process, or those that process `pid` was started with (what it changed since is not seen).
    For who reads single ones of them: `of_interest` is what may be handed on."""
    if pid is None:
        return dict(os.environ)
    place = f"/proc/{pid}/environ"
    try:
        data = under(root, place).read_bytes()[:_LARGEST]
    except FileNotFoundError:
        return Untold(f"there is no process {pid} here")
    except ProcessLookupError:
        return Untold(f"process {pid} has ended")
    except OSError as error:
        return Untold(f"{place} cannot be read ({error.strerror}): only its user and root may")
    pairs = (word.partition("=") for word in data.decode("utf-8", "replace").split("\0") if "=" in word)
    return {name: value for name, _, value in pairs}


def of_interest(variables: Mapping[str, str]) -> dict[str, str]:
    """Those that a check may look at, by name."""
    return {name: variables[name] for name in sorted(variables) if asked_for(name)}
