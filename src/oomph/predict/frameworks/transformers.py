"""transformers' classes under its own Trainer, trl's, or a plain loop. Sources: docs/frameworks.md."""

from __future__ import annotations

from dataclasses import replace

from oomph.job.model import Job
from oomph.predict.frameworks.code import Code
from oomph.predict.frameworks.versions import below

#: Families of which older releases were recorded; others are played as today's classes.
_RECORDED = ("llama", "mistral", "granite", "mixtral", "gpt_bigcode", "qwen2")
_LOOPS = ("pytorch", "peft-method-comparison")
#: Trainers on transformers' own that set use_reentrant to true themselves: axolotl (utils/config/__init__.py),
#: LLaMA-Factory (model_utils/checkpointing.py, use_reentrant_gc; not under FSDP2).
_REENTRANT = ("axolotl", "llama-factory")
#: Kernels or layers of their own, which were not recorded.
_OTHERS = {
    "unsloth": "unsloth's own kernels are not modelled: transformers' classes are played, which take more.",
    "megatron-lm": "Megatron-LM's layers are not recorded: transformers' classes are played in their place.",
    "nanotron": "nanotron's layers are not recorded: transformers' classes are played in their place.",
}


def codes(job: Job) -> tuple[Code, ...]:
    """By the version of transformers, newest rules where it is not known; then what the loop around them holds."""
    loop = job.framework.name.lower() in _LOOPS
    found = tuple(_around(job, _model(job, old, shifts), loop) for old, shifts in _generations(job))
    if job.framework.name:
        return found
    return (*found, _around(job, _model(job, False, False), True))


def _generations(job: Job) -> tuple[tuple[bool, bool], ...]:
    """(older than 4.46: the class upcasts the logits itself; older than 4.49: the logits are shifted by a copy)."""
    old = below(job.framework, "transformers", 4, 46)
    if old is None:
        return ((False, False), (False, True)) if job.framework.name else ((False, False),)
    return ((old, bool(below(job.framework, "transformers", 4, 49))),)


def _model(job: Job, old: bool, shifts: bool) -> Code:
    """The classes of one generation."""
    if old:
        start, label = "transformers-4.45", "transformers up to 4.45"
    elif shifts:
        start, label = "transformers-4.48", "transformers 4.46 to 4.48"
    else:
        start, label = "transformers", "transformers from 4.49 on"
    families = None if start == "transformers" else _RECORDED
    return Code(
        label=label,
        programs=start,
        own_families=families,
        fallback=None if families is None else "transformers",
        loss="eager_fp32" if job.loss == "default" else job.loss,
        fusions=_fusions(job),
        reentrant=_reentrant(job),
        # models/gpt_bigcode/modeling_gpt_bigcode.py turns the cache off since 4.53
        caches_recomputed=job.model.family == "gpt_bigcode"
        and below(job.framework, "transformers", 4, 53) is True,
        # modeling_utils.py, activation_checkpointing_enable; before 5 with PEFT only
        inputs_want_gradients=below(job.framework, "transformers", 5, 0) is not True,
        lora_fp32=below(job.framework, "peft", 0, 12) is not True,
        quantized_input_kept=below(job.framework, "bitsandbytes", 0, 43) is True,
        notes=_notes(job, label if families is not None else ""),
    )


def _notes(job: Job, older: str) -> tuple[str, ...]:
    """What is played in place of something else. `older`: the releases meant, where they are not today's."""
    found = [note for name, note in _OTHERS.items() if name == job.framework.name.lower()]
    if older and job.model.family not in _RECORDED:
        found.append(
            f"{job.model.family} of {older} is not recorded: today's class is played. The loss of that time copied "
            "the shifted logits too: up to 4 bytes more for each while it ran."
        )
    return tuple(found)


def _reentrant(job: Job) -> bool:
    """gradient_checkpointing_enable's default: reentrant before transformers 5 (modeling_utils.py). trl's trainers ask
    for the other from 0.27 on (sft_trainer.py)."""
    if job.framework.name.lower() in _REENTRANT:
        return not job.parallel.strategy.startswith("fsdp2")
    if below(job.framework, "trl", 0, 27) is False:
        return False
    return below(job.framework, "transformers", 5, 0) is True


def fsdp_qlora(job: Job) -> tuple[Code, ...]:
    """Answer.AI's train.py of early 2024 around transformers 4.38: its own loop, FSDP1 on flat parameters, adapters and
    (with its own adapters) attention and MLP as units. Its benchmarks pass --reentrant_checkpointing True."""
    return (
        replace(
            _model(job, True, True),
            framework="fsdp-qlora",
            label="Answer.AI's fsdp_qlora",
            logits_through_backward=True,
            zero_grad="after_step",
            clips=False,
            reentrant=True,
            checkpoints_within_units=True,
            use_orig_params=False,
            adapters_apart=job.method.lora is not None,
            # PEFT 0.9 makes adapters of the base weight's type; its own adapters are of the compute type
            lora_fp32=False,
        ),
    )


def _fusions(job: Job) -> frozenset[str]:
    """fms-acceleration's fast kernels come with its losses (foak-fast-kernels, -liger); use_liger_kernel replaces the
    MLP as well (liger_kernel/transformers/monkey_patch.py)."""
    if "fms-acceleration" in job.framework.name.lower() and job.loss in ("triton_ce", "fused_linear_ce"):
        if job.method.quantization is None:
            return frozenset(("rms_norm", "rope"))
        # FastQuantized is all or nothing (its sample configurations say so), however a single kernel's key is spelled.
        return frozenset(("rms_norm", "rope", "lora"))
    return frozenset(("rms_norm", "rope", "swiglu")) if job.loss == "fused_linear_ce" else frozenset()


def _around(job: Job, code: Code, loop: bool) -> Code:
    """What the training loop casts and keeps."""
    if loop:
        return replace(
            code,
            framework="pytorch",
            label=f"{code.label}, in a loop of the user's own",
            logits_through_backward=True,
            logits_through_step=True,
            loss_through_step=True,
            zero_grad="before_forward" if job.framework.name else "after_step",
        )
    return replace(
        code,
        # accelerate wraps forward in autocast and in a cast of what it returns (prepare_model, native_amp)
        outputs_to_fp32=job.precision.autocast,
        fsdp_upcasts_parameters=job.precision.autocast,
        adapters_apart=job.method.lora is not None,
    )
