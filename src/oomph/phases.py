"""The phases of a training job, in the order in which a job passes through them."""

from __future__ import annotations

from enum import Enum


class Phase(str, Enum):
    """Where in its life a job was.

    `init` is the process, the CUDA context, NCCL and the wrapping in DDP/FSDP/DeepSpeed; `load` is weights and
    checkpoints on their way to the device; a checkpoint's recompute is `backward`; `unknown` is an answer, given
    when nothing proves another.
    """

    INIT = "init"
    LOAD = "load"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    EVAL = "eval"
    GENERATE = "generate"
    SAVE = "save"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value
