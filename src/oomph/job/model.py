"""The job: a training set-up with everything that decides how much memory it needs.

All parts are frozen and compare by value, so a job can be the key of a cache, and a remedy is a function from one job
to another. Names are the field's; what is not known is None and is decided by `resolve`, which says what it assumed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

DType = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4"]
#: Bytes of one element. tf32 is how fp32 tensors are multiplied: they take 4 bytes.
ITEM_BYTES = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5}

MethodName = Literal["full", "lora", "qlora"]
Strategy = Literal[
    "none",
    "ddp",
    "fsdp1_full_shard",
    "fsdp1_shard_grad_op",
    "fsdp1_no_shard",
    "fsdp1_hybrid_shard",
    "fsdp2_full",
    "fsdp2_no_reshard",
    "fsdp2_hybrid_shard",
    "zero1",
    "zero2",
    "zero3",
]
CheckpointMode = Literal["none", "full", "selective_op", "every_n"]
AttentionName = Literal[
    "eager",
    "sdpa",
    "sdpa_flash",
    "sdpa_efficient",
    "sdpa_math",
    "flash_attention_2",
    "flash_attention_3",
    "flex",
]
LossName = Literal[
    "default", "eager_fp32", "eager_bf16", "triton_ce", "chunked_ce", "fused_linear_ce", "loss_parallel"
]
ObjectiveName = Literal["default", "dpo", "kto", "orpo", "reward", "grpo", "rloo", "ppo"]
ReferenceName = Literal["initial", "copy", "adapters_off", "precomputed", "without"]
OptimizerImpl = Literal[
    "foreach", "fused", "for_loop", "capturable", "in_backward", "bnb", "bnb_paged", "torchao"
]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a job: frozen, compared by value, no unknown keys."""


class Dimension(_Part, frozen=True):
    """One number of a model's configuration, under the key that its config.json uses."""

    key: str
    value: int | float | bool | str | tuple[int | float | str, ...] | None


class Model(_Part, frozen=True):
    """The model. `config` is its configuration as in config.json (keys of transformers), as sorted pairs so that it can
    be compared; `job.families` turns it into tensors. `family` is config.json's model_type."""

    name: str = ""
    family: str = ""
    config: tuple[Dimension, ...] = ()

    def get(self, key: str, default: object = None) -> object:
        """The configuration's value under `key`; `default` where it has none or null."""
        for each in self.config:
            if each.key == key:
                return default if each.value is None else each.value
        return default


class Lora(_Part, frozen=True):
    """Adapters. `targets` are names of linear modules as PEFT takes them (the last part of a module's name), or
    ("all-linear",). `dtype` is that of the stored adapters. `modules_to_save`: modules that train whole beside the
    adapters (an embedding, the head)."""

    rank: int = 8
    targets: tuple[str, ...] = ("q_proj", "v_proj")
    dropout: float = 0.0
    dtype: DType = "fp32"
    dora: bool = False
    modules_to_save: tuple[str, ...] = ()


class Quantization(_Part, frozen=True):
    """How frozen weights are stored. nf4/fp4: 4 bits and one absmax per `block` weights; `double`: the absmax is
    quantised again; gptq4: int4 in groups of 128; int8: LLM.int8(). `head`: the output layer is quantised too.
    `prepared`: peft's prepare_model_for_kbit_training cast what is not quantised (norms, embedding, head) to fp32."""

    kind: Literal["nf4", "fp4", "int8", "gptq4"]
    double: bool = False
    block: int = 64
    head: bool = False
    prepared: bool = False


class Method(_Part, frozen=True):
    """What is trained. `frozen`: modules (prefixes of names) whose parameters do not train."""

    name: MethodName = "full"
    lora: Lora | None = None
    quantization: Quantization | None = None
    frozen: tuple[str, ...] = ()


class Precision(_Part, frozen=True):
    """weights: of the resident (sharded) parameters. compute: of matrix products. autocast: torch.autocast is on.
    master: a second copy of the weights in fp32 beside lower-precision ones. grads, reduce: dtype of stored gradients
    and of their reduction (None: as the parameters)."""

    weights: DType = "fp32"
    compute: DType = "fp32"
    autocast: bool = False
    master: bool = False
    grads: DType | None = None
    reduce: DType | None = None


class Batch(_Part, frozen=True):
    """micro: samples per rank and forward. sequence: tokens per sample, padding included (None: no text). target:
    tokens of what an encoder-decoder is to write (None: as many as `sequence`). image_size: pixels of a side. packed:
    sequences are joined without padding. variable: `sequence` is the longest that occurs; batches are as long as their
    longest sample. padding: samples are filled up to the longest of their batch, or to `sequence` always, and the model
    gets a mask that says where (None: not known)."""

    micro: int = 1
    sequence: int | None = 2048
    target: int | None = None
    accumulation: int = 1
    image_size: int | None = None
    packed: bool = False
    variable: bool = False
    padding: Literal["off", "longest", "max_length"] | None = None


class Optimizer(_Part, frozen=True):
    """name: adamw, adam, sgd, adafactor, lion, muon. `state`: dtype of the moments (None: as the parameters).
    `offload`: cpu (states on the host), paged (bitsandbytes' paged memory: outside the allocator)."""

    name: str = "adamw"
    impl: OptimizerImpl = "foreach"
    state: DType | None = None
    offload: Literal["none", "cpu", "nvme", "paged"] = "none"
    momentum: float = 0.0


class Checkpointing(_Part, frozen=True):
    """Activation checkpointing. full: every block; every_n: one block of `every`; selective_op: torchtitan's policy per
    operator. `reentrant` None: as the framework and its version do."""

    mode: CheckpointMode = "none"
    every: int = 1
    reentrant: bool | None = None


class Parallel(_Part, frozen=True):
    """Ranks: data * tensor * context * pipeline of them; `expert` divides data ranks. `shard_size`: ranks of one shard
    group in the hybrid strategies (None: those of a node). `units`: what FSDP wraps beside the root: the blocks, or the
    blocks and embedding and head apart, or nothing. `offload_parameters`: parameters (and gradients, and the optimizer
    step) live on the host. `sync_each_batch`: gradients are reduced after every micro-batch of a step (None: as the
    framework does; transformers' loop leaves all but the last unreduced). Sizes of buckets are bytes for DDP, elements
    for ZeRO (as DeepSpeed's)."""

    strategy: Strategy = "none"
    data: int = 1
    tensor: int = 1
    context: int = 1
    pipeline: int = 1
    expert: int = 1
    sequence_parallel: bool = False
    shard_size: int | None = None
    units: Literal["blocks", "blocks_and_embeddings", "root"] = "blocks"
    offload_parameters: bool = False
    ddp_bucket_bytes: int = 25 * 1024 * 1024
    gradient_as_bucket_view: bool = False
    sync_each_batch: bool | None = None
    limit_all_gathers: bool = True
    forward_prefetch: bool = False
    backward_prefetch: Literal["pre", "post", "none"] = "pre"
    use_orig_params: bool | None = None
    zero_reduce_bucket: int = 500_000_000
    zero_allgather_bucket: int = 500_000_000
    zero_prefetch_bucket: int = 50_000_000
    zero_max_live_parameters: int = 1_000_000_000
    zero_persistence_threshold: int = 100_000
    zero_contiguous_gradients: bool = True
    zero_overlap_comm: bool = False
    pipeline_schedule: Literal["gpipe", "1f1b", "interleaved_1f1b", "zero_bubble"] = "1f1b"

    @property
    def ranks(self) -> int:
        """All ranks of the job."""
        return self.data * self.tensor * self.context * self.pipeline


class Evaluation(_Part, frozen=True):
    """What runs between training steps. batch None: no evaluation. `keep_logits`: predictions are gathered on the GPU
    (accumulation_steps None: until the end). generate: new tokens per sample."""

    batch: int | None = None
    sequence: int | None = None
    samples: int | None = None
    keep_logits: bool = False
    accumulation_steps: int | None = None
    generate: int = 0
    beams: int = 1


class Objective(_Part, frozen=True):
    """What the model is trained for, where that is not what its own class computes (TRL's trainers). `reference`: the
    model that log-probabilities are compared with: a copy of the weights, the model with its adapters off, the one of
    both that TRL would choose ("initial"), none because they were computed before, none at all (None: as TRL has it by
    default). completion: tokens of a sample (which `batch.sequence` counts with its prompt) that are scored, or
    generated (None: all but one). generations: completions of one prompt. steps_per_generation: micro-batches that are
    generated at once (None: batch.accumulation). `rollouts`: who generates; vLLM in the trainer's process takes the
    share `vllm_memory` of the card, and with `vllm_sleep` gives it back while the model trains."""

    name: ObjectiveName = "default"
    reference: ReferenceName | None = None
    completion: int | None = None
    generations: int = 8
    steps_per_generation: int | None = None
    rollouts: Literal["transformers", "vllm_colocate", "vllm_server"] = "transformers"
    vllm_memory: float = 0.3
    vllm_sleep: bool = False


class Framework(_Part, frozen=True):
    """Whose code trains: transformers, trl, litgpt, torchtitan, torchtune, lightning, ... ("" where not known), and
    versions as pairs (library, version) sorted by library."""

    name: str = ""
    versions: tuple[tuple[str, str], ...] = ()

    def version(self, library: str) -> tuple[int, ...] | None:
        """The version of a library as numbers (2, 4, 1); None where it is not known."""
        for name, text in self.versions:
            if name == library:
                numbers = []
                for part in text.split("+")[0].split("."):
                    digits = "".join(c for c in part if c.isdigit()) if part[:1].isdigit() else ""
                    if not digits:
                        break
                    numbers.append(int(digits))
                return tuple(numbers) or None
        return None


class Hardware(_Part, frozen=True):
    """gpu: a name that `hardware.names.gpu` knows, or "" . machine: the cloud machine type that it came from. gpus: in
    all; per_node None: as the machine has. free_bytes: what is free on the card now (None: an idle card).
    capacity_bytes: what PyTorch can have, where the GPU is not named. host_bytes: RAM of a node."""

    gpu: str = ""
    machine: str = ""
    gpus: int = 1
    per_node: int | None = None
    free_bytes: int | None = None
    capacity_bytes: int | None = None
    host_bytes: int | None = None


class Job(_Part, frozen=True):
    """A training set-up. See the parts."""

    model: Model = Model()
    method: Method = Method()
    precision: Precision = Precision()
    batch: Batch = Batch()
    optimizer: Optimizer = Optimizer()
    checkpointing: Checkpointing = Checkpointing()
    activation_offload: bool = False
    parallel: Parallel = Parallel()
    attention: AttentionName = "sdpa"
    loss: LossName = "default"
    compile: bool = False
    framework: Framework = Framework()
    hardware: Hardware = Hardware()
    evaluation: Evaluation = Evaluation()
    objective: Objective = Objective()
    allocator: str = ""
