"""What a framework's code does to memory outside the operators of one block: a record per framework and version.

Every default is what current transformers' `Trainer` does, so that a `Code()` stands for it. Sources (file and line of
each framework's tree at the versions named) are in docs/frameworks.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ZeroGrad = Literal["after_step", "before_forward", "before_backward"]
Units = Literal["blocks", "blocks_and_embeddings", "blocks_embedding_norm_head", "modules", "root"]
LoraStyle = Literal["peft", "litgpt", "torchtune", "torchtitan"]
Compiled = Literal["model", "blocks", "blocks_and_loss", "model_and_loss"]


@dataclass(frozen=True)
class Code:
    """Whose code runs, and what it holds, casts, wraps and drops. Bytes follow from these switches elsewhere.

    framework, label: whose code, and a name of the version range for people ("transformers 4.46 to 4.49").
    programs: the start of a program's file name; `program(family)` gives the file of a family. `own_families`: families
    that this framework's programs are recorded for, `written_as`: families whose blocks it writes as another's; any
    other is played by `fallback` (None: refused by name). Programs that do not begin with "transformers" alone name
    parameters as their framework does: `parameters.architecture_of` gives the model in those names.
    loss: key of `losses` in the program that this code runs for the job's loss.
    """

    framework: str = "transformers"
    label: str = "transformers, current"
    programs: str = "transformers"
    own_families: tuple[str, ...] | None = None
    written_as: tuple[tuple[str, str], ...] = ()
    fallback: str | None = None
    loss: str = "eager_fp32"

    # What is alive between forward and backward, and between steps.
    #: The model's output (logits) is referenced by the caller until the backward has ended.
    logits_through_backward: bool = False
    #: ... and until the next forward has returned: `outputs = model(...)` in a loop. Alive at the end of the step.
    logits_through_step: bool = False
    #: The loss is the caller's: what it held of the last iteration is let go when it binds the new logits, before the
    #: loss runs. False: the loss is the model's, so that is let go when the loss has been taken.
    loss_outside: bool = False
    #: `loss` of the last iteration is referenced during the next forward. Its graph's saved tensors are freed by
    #: backward; what is left are tensors that a Function keeps as an attribute of its ctx (see quantized_input_kept).
    loss_through_step: bool = False
    #: When gradients are set to None: right after the step, at the start of the next step, or between forward and
    #: backward (Lightning's closure): in the last two they are alive at the end of a step, in the last during forward.
    zero_grad: ZeroGrad = "after_step"
    #: Gradients' norm is clipped (one scalar per parameter, a multiply in place: no memory to speak of).
    clips: bool = True

    # Casts around the model.
    #: The model's output is cast to fp32 after its forward (Fabric's convert_output, accelerate's
    #: convert_outputs_to_fp32): 4 more bytes per logit, beside the 2 of the model's own output while the cast runs.
    outputs_to_fp32: bool = False
    #: The cast runs before the loss (Fabric: the loss is the caller's) or after (accelerate: the loss is the model's).
    cast_before_loss: bool = False
    #: torch.autocast's cache of cast weights (2 bytes per trainable fp32 weight that a matrix product used) holds until
    #: autocast ends: with the model's forward (True) or with the whole step, backward included (False).
    autocast_ends_with_forward: bool = True
    #: Trainable parameters are stored in fp32 under FSDP although they were loaded in half precision (accelerate
    #: >= 0.27 with mixed precision).
    fsdp_upcasts_parameters: bool = False

    # Checkpointing.
    #: use_reentrant where the job does not say.
    reentrant: bool = False
    #: FSDP wraps checkpointed layers (apply_activation_checkpointing), and not checkpoints wrapped ones.
    checkpoints_within_units: bool = False
    #: Keys and values are part of the model's output although layers are checkpointed.
    caches_recomputed: bool = False
    #: The embedding's output is made to want a gradient where layers are checkpointed, adapters or not.
    inputs_want_gradients: bool = False
    #: The recomputed block is under torch.compile, or compiled blocks are checkpointed from outside.
    checkpoint_outside_compile: bool = True
    #: Under selective checkpointing: matrix products are kept every n-th (torchtitan: 2); 0: not offered. Whether the
    #: result of attention is kept too.
    selective_every: int = 0
    selective_attention: bool = True

    # FSDP.
    #: Units beside the root, where the job does not say. blocks_and_embeddings: the embedding is a unit, and the output
    #: layer is one (with the final norm: `head_with_norm`). blocks_embedding_norm_head: the final norm is one too.
    #: modules: every module that has parameters of its own is a unit.
    units: Units = "blocks"
    #: Final norm and output layer are one unit (else the final norm is the root's).
    head_with_norm: bool = False
    #: FSDP2: the last block keeps its unsharded parameters between forward and backward (reshard_after_forward=False).
    last_block_stays: bool = False
    #: FSDP2: the head's unit, where there is one, keeps its unsharded parameters until its backward.
    head_stays: bool = False
    #: FSDP1: flat parameters are of original parameters (use_orig_params).
    use_orig_params: bool = True
    #: Frozen and trainable parameters of a block are in one unit (False: PEFT's wrap policy makes a unit of each
    #: trainable adapter module).
    adapters_apart: bool = False
    #: Data type of gradients' reduction under FSDP: of compute (True), or fp32 (False).
    reduces_in_compute: bool = True

    # LoRA.
    lora: LoraStyle = "peft"
    #: The adapter's input is cast to the adapter's type (PEFT: `x = x.to(lora_A.weight.dtype)`): with fp32 adapters on
    #: a bf16 model 4 bytes per input element are kept by each adapted layer.
    lora_casts_input: bool = True
    #: Adapters are stored in fp32 whatever the model's type (peft >= 0.12: autocast_adapter_dtype; older ones too, as
    #: nn.Linear's default type).
    lora_fp32: bool = True

    # Quantised weights.
    #: Block constants of quantised weights are sharded with them (torchao's NF4Tensor; bitsandbytes' are attributes).
    shards_constants: bool = False
    #: The output layer is quantised too (Fabric's bitsandbytes plugin replaces every nn.Linear).
    quantizes_head: bool = False
    #: bitsandbytes up to 0.42: MatMul4Bit keeps its input as an attribute of ctx: it is not freed by backward, but when
    #: the graph itself dies (with `loss` or `logits` of the caller).
    quantized_input_kept: bool = False
    #: A dequantised weight that is not of the compute type is cast: two buffers at once.
    dequantizes_twice: bool = False

    # Model and compile.
    #: Kernels that stand for several operators of the model's class (engine/fusions.py): rms_norm, rope, swiglu.
    fusions: frozenset[str] = frozenset()
    #: Embedding and head are two tensors even where the checkpoint ties them.
    unties: bool = False
    #: Under which names of its own this framework's programs have a tied weight: that, and the one it is tied to.
    ties: tuple[tuple[str, str], ...] = ()
    #: What torch.compile compiles where the job says compile.
    compiled: Compiled = "model"
    #: The optimizer's implementation where the job does not say.
    optimizer_impl: Literal["foreach", "fused"] = "foreach"
    #: An embedding that is made after the freezing trains by accident: its gradient is never freed, and the old one
    #: stays referenced (LitGPT >= 0.5 with bitsandbytes).
    stray_embedding: bool = False
    #: What this record leaves open, for people: becomes an assumption of the plan.
    notes: tuple[str, ...] = ()

    def program(self, family: str) -> str | None:
        """The stem of the program's file for a family; None where this code has none (refuse by name)."""
        family = dict(self.written_as).get(family, family)
        if self.own_families is None or family in self.own_families:
            return f"{self.programs}-{family}"
        return f"{self.fallback}-{family}" if self.fallback else None
