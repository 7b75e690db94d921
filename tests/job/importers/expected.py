"""The jobs of the files in files/, written out by hand from what their keys mean."""

from __future__ import annotations

from pathlib import Path

from oomph.job.model import (
    Batch,
    Checkpointing,
    Dimension,
    Evaluation,
    Framework,
    Hardware,
    Job,
    Lora,
    Method,
    Model,
    Optimizer,
    Parallel,
    Precision,
    Quantization,
)
from oomph.job.names import model as known_model

FILES = Path(__file__).with_name("files")
#: A name that no list of models has: the job keeps it.
SMALL = Model(name="acme/small-llama")
MIXED_BF16 = Precision(weights="fp32", compute="bf16", autocast=True)
LINEAR = ("q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def dimensions(**values):
    return tuple(Dimension(key=key, value=values[key]) for key in sorted(values))


EXPECTED = {
    # 8 + 8 ranks; SHARD_GRAD_OP; accelerate casts what trains to fp32 where mixed precision is on.
    "accelerate_fsdp.yaml": (
        "Accelerate",
        Job(
            precision=MIXED_BF16,
            parallel=Parallel(
                strategy="fsdp1_shard_grad_op",
                data=16,
                forward_prefetch=True,
                backward_prefetch="pre",
                use_orig_params=True,
            ),
            hardware=Hardware(gpus=16, per_node=8),
        ),
    ),
    # 4 processes: 2 of tensor parallel, 2 that shard; mixed_precision "no" (YAML reads a bare no as false).
    "accelerate_fsdp2.yaml": (
        "Accelerate",
        Job(
            precision=Precision(),
            optimizer=Optimizer(offload="cpu"),
            checkpointing=Checkpointing(mode="full", reentrant=False),
            parallel=Parallel(strategy="fsdp2_no_reshard", data=2, tensor=2, offload_parameters=True),
            hardware=Hardware(gpus=4),
        ),
    ),
    # DeepSpeed: half-precision weights, fp32 partitions. overlap_comm is on in stage 3 by default.
    "accelerate_deepspeed.yaml": (
        "Accelerate",
        Job(
            precision=Precision(weights="fp16", compute="fp16", master=True),
            batch=Batch(accumulation=8),
            optimizer=Optimizer(state="fp32", offload="cpu"),
            parallel=Parallel(strategy="zero3", data=8, offload_parameters=True, zero_overlap_comm=True),
            hardware=Hardware(gpus=8),
        ),
    ),
    # train_batch_size 64 = 4 x 16 x 1 GPU. torch_adam: PyTorch's AdamW, which is foreach.
    "ds_zero2.json": (
        "DeepSpeed",
        Job(
            precision=Precision(weights="fp16", compute="fp16", master=True, grads="fp32", reduce="fp32"),
            batch=Batch(micro=4, accumulation=16),
            optimizer=Optimizer(impl="foreach", state="fp32"),
            parallel=Parallel(
                strategy="zero2",
                zero_allgather_bucket=200_000_000,
                zero_reduce_bucket=300_000_000,
                zero_overlap_comm=True,
            ),
        ),
    ),
    "adapter_config.json": (
        "PEFT",
        Job(
            model=SMALL,
            method=Method(
                name="lora",
                lora=Lora(
                    rank=64,
                    targets=("v_proj", "q_proj"),
                    dropout=0.05,
                    dora=True,
                    modules_to_save=("embed_tokens", "lm_head"),
                ),
            ),
        ),
    ),
    # fp16=True is autocast over weights that transformers 4 loads in fp32.
    "trainer.yaml": (
        "TrainingArguments",
        Job(
            model=SMALL,
            precision=Precision(weights="fp32", compute="fp16", autocast=True),
            batch=Batch(micro=2),
            optimizer=Optimizer(impl="bnb_paged", state="int8", offload="paged"),
            framework=Framework(name="transformers"),
        ),
    ),
    "training_arguments.txt": (
        "TrainingArguments",
        Job(
            precision=MIXED_BF16,
            batch=Batch(micro=1, accumulation=4),
            optimizer=Optimizer(impl="fused"),
            checkpointing=Checkpointing(mode="full", reentrant=False),
            parallel=Parallel(
                strategy="fsdp1_full_shard", ddp_bucket_bytes=50 * 1024 * 1024, use_orig_params=False
            ),
            framework=Framework(name="transformers"),
            evaluation=Evaluation(batch=2, accumulation_steps=16),
        ),
    ),
    "sft.yaml": (
        "TRL",
        Job(
            model=SMALL,
            method=Method(
                name="qlora",
                lora=Lora(rank=32, targets=("all-linear",), dropout=0.1),
                quantization=Quantization(kind="nf4", double=True, prepared=True),
            ),
            precision=Precision(weights="bf16", compute="bf16", autocast=True),
            batch=Batch(micro=4, sequence=4096, accumulation=2, packed=True),
            checkpointing=Checkpointing(mode="full", reentrant=False),
            activation_offload=True,
            attention="flash_attention_2",
            framework=Framework(name="trl"),
        ),
    ),
    # 8 GPUs: 4 x 2. The loss is parallel unless it is disabled, and tensor parallel splits the sequence.
    "torchtitan_2024.toml": (
        "torchtitan",
        Job(
            model=known_model("meta-llama/Llama-3.1-8B"),
            precision=Precision(weights="fp32", compute="bf16"),
            batch=Batch(micro=2, sequence=8192, packed=True),
            optimizer=Optimizer(impl="fused"),
            checkpointing=Checkpointing(mode="selective_op", reentrant=False),
            parallel=Parallel(strategy="fsdp2_full", data=4, tensor=2, sequence_parallel=True),
            loss="loss_parallel",
            compile=True,
            framework=Framework(name="torchtitan"),
            hardware=Hardware(gpus=8),
        ),
    ),
    # 2 replicas of 8 shards; float8 linear layers; model and loss compiled; every third block.
    "torchtitan_2025.toml": (
        "torchtitan",
        Job(
            model=known_model("meta-llama/Llama-3.1-70B"),
            precision=Precision(weights="fp32", compute="fp8"),
            batch=Batch(micro=1, sequence=4096, packed=True),
            optimizer=Optimizer(impl="fused"),
            checkpointing=Checkpointing(mode="every_n", every=3, reentrant=False),
            parallel=Parallel(strategy="fsdp2_hybrid_shard", data=16, shard_size=8),
            loss="triton_ce",
            compile=True,
            framework=Framework(name="torchtitan"),
            hardware=Hardware(gpus=16),
        ),
    ),
    # torchao's NF4 quantises the scales too; adapters have the dtype of training.
    "torchtune.yaml": (
        "torchtune",
        Job(
            model=known_model("meta-llama/Llama-3.1-8B"),
            method=Method(
                name="qlora",
                lora=Lora(rank=16, targets=LINEAR, dropout=0.05, dtype="bf16"),
                quantization=Quantization(kind="nf4", double=True),
            ),
            precision=Precision(weights="bf16", compute="bf16"),
            batch=Batch(micro=2, sequence=4096, accumulation=8, packed=True),
            optimizer=Optimizer(impl="fused"),
            checkpointing=Checkpointing(mode="full", reentrant=False),
            activation_offload=True,
            attention="flex",
            loss="chunked_ce",
            compile=True,
            framework=Framework(name="torchtune"),
        ),
    ),
    "axolotl.yaml": (
        "axolotl",
        Job(
            model=SMALL,
            method=Method(
                name="qlora",
                lora=Lora(rank=32, targets=("all-linear",), dropout=0.05),
                quantization=Quantization(kind="nf4", double=True, prepared=True),
            ),
            precision=Precision(weights="bf16", compute="bf16", autocast=True),
            batch=Batch(micro=2, sequence=2048, accumulation=4, packed=True),
            optimizer=Optimizer(impl="bnb_paged", state="fp32", offload="paged"),
            checkpointing=Checkpointing(mode="full", reentrant=True),
            attention="flash_attention_2",
            loss="fused_linear_ce",
            framework=Framework(name="axolotl"),
        ),
    ),
    "llama_factory.yaml": (
        "LLaMA-Factory",
        Job(
            model=SMALL,
            method=Method(
                name="qlora",
                lora=Lora(rank=8, targets=("q_proj", "v_proj")),
                quantization=Quantization(kind="nf4", double=True),
            ),
            precision=Precision(weights="bf16", compute="bf16", autocast=True),
            batch=Batch(micro=1, sequence=4096, accumulation=8, packed=True),
            optimizer=Optimizer(impl="foreach"),
            checkpointing=Checkpointing(mode="full", reentrant=True),
            activation_offload=True,
            attention="flash_attention_2",
            framework=Framework(name="llama-factory"),
        ),
    ),
    # 8 nodes' worth: 2 nodes x 4 devices.
    "lightning.yaml": (
        "Lightning",
        Job(
            model=SMALL,
            precision=MIXED_BF16,
            batch=Batch(micro=6, sequence=1024, accumulation=3),
            optimizer=Optimizer(impl="fused"),
            checkpointing=Checkpointing(mode="full", reentrant=False),
            parallel=Parallel(strategy="fsdp1_shard_grad_op", data=8),
            framework=Framework(name="lightning"),
            hardware=Hardware(gpus=8, per_node=4),
        ),
    ),
    # 16 GPUs / 4 = 4 data ranks; 128 = 1 x 32 x 4. 128256 is a multiple of 128 x 4 already (250.5 is not: 128512).
    "megatron.sh": (
        "command",
        Job(
            model=Model(
                name="Megatron-LM's arguments",
                family="llama",
                config=dimensions(
                    model_type="llama",
                    hidden_size=4096,
                    num_hidden_layers=32,
                    num_attention_heads=32,
                    num_key_value_heads=8,
                    intermediate_size=14336,
                    head_dim=128,
                    vocab_size=251 * 512,
                    max_position_embeddings=8192,
                    tie_word_embeddings=False,
                    attention_bias=False,
                    attention_dropout=0.0,
                    mlp_bias=False,
                ),
            ),
            precision=Precision(weights="bf16", compute="bf16", master=True, grads="fp32"),
            batch=Batch(micro=1, sequence=8192, accumulation=32, packed=True),
            optimizer=Optimizer(impl="fused", state="fp32"),
            checkpointing=Checkpointing(mode="full"),
            parallel=Parallel(strategy="zero1", data=4, tensor=4, sequence_parallel=True),
            attention="sdpa_flash",
            loss="loss_parallel",
            framework=Framework(name="megatron-lm"),
            hardware=Hardware(gpus=16, per_node=8),
        ),
    ),
    # 32 = 4 x 4 x 2 data ranks. GPT's block: LayerNorm, learned positions, biases.
    "megatron_dump.txt": (
        "Megatron-LM",
        Job(
            model=Model(
                name="Megatron-LM's arguments",
                family="gpt2",
                config=dimensions(
                    model_type="gpt2",
                    n_embd=4096,
                    n_layer=24,
                    n_head=32,
                    n_inner=16384,
                    n_positions=2048,
                    vocab_size=51200,
                    attn_pdrop=0.1,
                    embd_pdrop=0.1,
                    resid_pdrop=0.1,
                    tie_word_embeddings=True,
                ),
            ),
            precision=Precision(weights="fp16", compute="fp16", master=True),
            batch=Batch(micro=4, sequence=2048, accumulation=4, packed=True),
            optimizer=Optimizer(impl="fused", state="fp32"),
            parallel=Parallel(
                strategy="ddp", data=2, tensor=4, pipeline=2, pipeline_schedule="interleaved_1f1b"
            ),
            attention="sdpa_flash",
            loss="loss_parallel",
            framework=Framework(name="megatron-lm"),
            hardware=Hardware(gpus=16),
        ),
    ),
    # 2 nodes x 4 processes; fp32 shards under bf16 autocast; everything of FSDP on the host.
    "torchrun.sh": (
        "command",
        Job(
            model=SMALL,
            precision=MIXED_BF16,
            batch=Batch(micro=2, sequence=2048, accumulation=8),
            optimizer=Optimizer(impl="foreach", offload="cpu"),
            checkpointing=Checkpointing(mode="full"),
            parallel=Parallel(
                strategy="fsdp1_full_shard",
                data=8,
                offload_parameters=True,
                backward_prefetch="none",
                use_orig_params=False,
            ),
            framework=Framework(name="transformers"),
            hardware=Hardware(gpus=8, per_node=4),
            allocator="expandable_segments:True",
        ),
    ),
}
