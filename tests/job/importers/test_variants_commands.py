"""Command lines, shell scripts, and what is left to them."""

from __future__ import annotations

import pytest

from oomph.job.importers import merge, read
from oomph.job.model import Batch, Optimizer
from tests.job.importers.tables import job

TRAIN = "train.py --per_device_train_batch_size 4"
FSDP = "--use_fsdp --fsdp_version 2 --num_processes 4 --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP"


@pytest.mark.parametrize(
    ("command", "gpus", "strategy"),
    [
        ("python train.py --output_dir o --learning_rate 1 --per_device_train_batch_size 4", 1, "none"),
        (f"torchrun --nproc_per_node=8 {TRAIN}", 8, "ddp"),
        (f"python -m torch.distributed.run --nproc_per_node 2 {TRAIN}", 2, "ddp"),
        (f"accelerate launch --multi_gpu --num_processes 4 {TRAIN}", 4, "ddp"),
        (f"accelerate launch {FSDP} {TRAIN}", 4, "fsdp2_full"),
        (f"accelerate launch --use_deepspeed --zero_stage 1 --num_processes 4 {TRAIN}", 4, "zero1"),
        (f"deepspeed --num_gpus 4 {TRAIN}", 4, "ddp"),
        (f"deepspeed --include localhost:0,1,2 {TRAIN}", 3, "ddp"),
        (f"srun torchrun --nnodes 2:2 --nproc-per-node 4 {TRAIN}", 8, "ddp"),
    ],
)
def test_launchers_count_the_processes(command, gpus, strategy):
    imported = read(command)
    assert imported.kind == "command"
    assert imported.unknown == ()
    found, _ = merge(imported)
    assert (found.batch.micro, found.hardware.gpus, found.parallel.strategy) == (4, gpus, strategy)


def test_commands_of_other_frameworks():
    found, _ = merge(
        read("litgpt finetune_lora meta-llama/Llama-3.2-1B --train.micro_batch_size 2 --lora_r 4")
    )
    assert found.framework.name == "litgpt"
    assert found.method.lora.rank == 4
    command = "torchrun --nproc_per_node 8 train.py --training.local_batch_size 3 --training.seq_len 64"
    found, _ = merge(read(f"{command} --parallelism.tensor_parallel_degree 2"))
    assert (found.framework.name, found.batch.micro) == ("torchtitan", 3)
    assert (found.parallel.data, found.parallel.tensor) == (4, 2)
    command = "trl sft --model_name_or_path acme/x --packing --max_length 256"
    found, _ = merge(read(f"{command} --per_device_train_batch_size 3"))
    assert (found.framework.name, found.batch) == ("trl", Batch(micro=3, sequence=256, packed=True))
    command = (
        "accelerate launch train_text_to_image.py --pretrained_model_name_or_path acme/sd --use_8bit_adam"
    )
    found, _ = merge(read(f"{command} --train_batch_size 2 --resolution 512 --mixed_precision fp16"))
    assert found.batch.image_size == 512
    assert found.optimizer == Optimizer(impl="bnb", state="int8")


def test_scripts_put_their_variables_in():
    script = """
BATCH=4
FLAGS="--bf16 True --gradient_checkpointing True"
NPROC=$((2 * 4))
torchrun --nproc_per_node $NPROC train.py $FLAGS \\
    --per_device_train_batch_size ${BATCH} --gradient_accumulation_steps ${STEPS:-3}
"""
    found, _ = merge(read(script))
    assert found.batch == Batch(micro=4, accumulation=3)
    assert found.hardware.gpus == 8
    assert found.checkpointing.mode == "full"


def test_arguments_under_a_condition_are_named_and_left_out():
    script = """
ARGS=(--per_device_train_batch_size 2)
if [ "$BIG" = 1 ]; then
    ARGS+=(--gradient_checkpointing True)
fi
python train.py ${ARGS[@]}
"""
    found, notes = merge(read(script))
    assert found.checkpointing.mode == "none"
    assert [note for note in notes if "condition" in note and "--gradient_checkpointing" in note]


def test_megatron_pads_the_vocabulary():
    sizes = "--num-layers 2 --hidden-size 64 --num-attention-heads 4"
    flags = f"python pretrain_gpt.py {sizes} --micro-batch-size 1 --seq-length 32"
    # To a multiple of 128 x 2 tensor-parallel ranks: 1000 -> 1024.
    found, _ = merge(read(f"{flags} --vocab-size 1000 --tensor-model-parallel-size 2"), gpus=2)
    assert found.model.get("vocab_size") == 1024
    assert found.model.family == "gpt2"
    # Dropout is 0.1 unless it is written.
    assert found.model.get("resid_pdrop") == 0.1
    assert merge(read(f"{flags} --hidden-dropout 0.0"))[0].model.get("resid_pdrop") == 0.0
    assert "selective" in " ".join(read(f"{flags} --recompute-granularity selective").unsupported)
    assert "num_experts" in " ".join(read(f"{flags} --num-experts 8").unsupported)
    assert "new_flag" in " ".join(read(f"{flags} --new-flag 8").unknown)


def test_trainer_state_has_the_batch():
    found = job({"log_history": [], "global_step": 5, "train_batch_size": 6})
    assert found.batch.micro == 6


def test_blocks_of_megatron():
    sizes = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --micro-batch-size 1 --seq-length 32"
    block = "--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear --hidden-dropout 0"
    llama, qwen2, qwen3 = (
        merge(read(f"python pretrain_gpt.py {sizes} {block} {more}"))[0].model
        for more in ("", "--add-qkv-bias", "--qk-layernorm")
    )
    assert (llama.family, qwen2.family, qwen3.family) == ("llama", "qwen2", "qwen3")
    # 8 * 64 / 3 = 170.67, to a multiple of 64 below.
    assert llama.get("intermediate_size") == 128
    mixed = read(f"python pretrain_gpt.py {sizes} --swiglu --normalization LayerNorm")
    assert "neither GPT's block nor Llama's" in " ".join(mixed.unsupported)


@pytest.mark.parametrize(
    "command",
    [
        "srun python train.py --per_device_train_batch_size 4",
        "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_ON_NODE " + TRAIN,
        "srun --ntasks-per-node=4 --nodes=2 python train.py --per_device_train_batch_size 4",
    ],
)
def test_jobs_of_slurm(command):
    head = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gres=gpu:a100:4\n"
    found, _ = merge(read(f"{head}\n{command}\n"))
    assert (found.hardware.gpus, found.hardware.per_node, found.parallel.data) == (8, 4, 8)
    assert found.parallel.strategy == "ddp"
