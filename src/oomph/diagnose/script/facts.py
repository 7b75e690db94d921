"""What a script is, as several checks ask it: the names of PyTorch's sharding, whether several ranks run it."""

from __future__ import annotations

import libcst as cst

from oomph.evidence.script.source import Script, argument, text_of
from oomph.evidence.script.variables import environment_key

_FSDP = "torch.distributed.fsdp"
FSDP1 = (
    f"{_FSDP}.FullyShardedDataParallel",
    f"{_FSDP}.fully_sharded_data_parallel.FullyShardedDataParallel",
)
FSDP2 = (
    f"{_FSDP}.fully_shard",
    "torch.distributed._composable.fsdp.fully_shard",
    "torch.distributed._composable.fsdp.fully_shard.fully_shard",
    "torch.distributed._composable.fully_shard",
)
DDP = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "torch.distributed.DistributedDataParallel",
)
INIT = ("torch.distributed.init_process_group", "torch.distributed.distributed_c10d.init_process_group")
#: Libraries that choose the device of each rank themselves.
_MANAGED = (
    "accelerate.Accelerator",
    "accelerate.PartialState",
    "transformers.Trainer",
    "transformers.TrainingArguments",
    "transformers.Seq2SeqTrainer",
    "lightning.Trainer",
    "lightning.Fabric",
    "lightning.pytorch.Trainer",
    "lightning.fabric.Fabric",
    "pytorch_lightning.Trainer",
    "composer.Trainer",
    "composer.utils.dist.initialize_dist",
    "ray.train.torch.prepare_model",
    "ray.train.torch.get_device",
    "torchtune.utils.get_device",
)


def distributed(script: Script) -> cst.CSTNode | None:
    """The first sign that several ranks run the script: the call (or the environment variable) that shows it."""
    signs: list[cst.CSTNode] = [
        *script.called(*INIT, *DDP, *FSDP1, *FSDP2),
        *script.called("torch.multiprocessing.spawn", "deepspeed.initialize", "deepspeed.init_distributed"),
        *script.called(
            "torch.distributed.device_mesh.init_device_mesh", "torch.distributed.init_device_mesh"
        ),
    ]
    signs += [call for call in script.calls if text_of(argument(call, "", 0)) in ("LOCAL_RANK", "WORLD_SIZE")]
    signs += [
        node for node in script.of(cst.Subscript) if text_of(environment_key(script, node)) == "LOCAL_RANK"
    ]
    return min(signs, key=script.begin, default=None)


def managed(script: Script) -> bool:
    """Whether a library that chooses each rank's device runs the training."""
    if any([script.means(call.func, *_MANAGED) for call in script.calls]):
        return True
    return any(
        [name.rpartition(".")[2].endswith(("Trainer", "TrainingArguments")) for name in script.imported]
    )
