"""Lightning's Trainer, LitGPT on Fabric, and lightning-thunder's LitGPT benchmark. Sources: docs/frameworks.md."""

from __future__ import annotations

from dataclasses import replace

from oomph.job.model import Job
from oomph.predict.frameworks.code import Code
from oomph.predict.frameworks.versions import below

_FAMILIES = ("llama", "mistral", "falcon", "gemma", "gemma2", "phi3", "gpt_neox")


def trainer(job: Job) -> tuple[Code, ...]:
    """Lightning's automatic optimization: forward, zero_grad and backward are one closure that optimizer.step calls, so
    that the last step's gradients are alive during forward (loops/optimization/automatic.py, Closure.closure)."""
    return (
        Code(
            framework="lightning",
            label="Lightning Trainer",
            loss="eager_fp32" if job.loss == "default" else job.loss,
            zero_grad="before_backward",
            clips=False,
            reentrant=False,
            use_orig_params=True,
            units="blocks",
        ),
    )


def litgpt(job: Job) -> tuple[Code, ...]:
    """LitGPT: its finetune scripts (full, lora) chunk the logits, its pretrain script the loss alone.

    Fabric casts what the model returns to fp32 (convert_output) when a precision plugin is set, `bf16-true` too.
    """
    pretrain = job.method.name == "full" and job.loss == "eager_fp32"
    old_bitsandbytes = below(job.framework, "bitsandbytes", 0, 43)
    code = Code(
        framework="litgpt",
        label="LitGPT, finetune",
        programs="litgpt",
        own_families=_FAMILIES,
        loss="chunked_ce" if job.loss == "default" else job.loss,
        logits_through_backward=True,
        logits_through_step=True,
        zero_grad="after_step",
        clips=False,
        outputs_to_fp32=True,
        cast_before_loss=True,
        reentrant=False,
        units="blocks",
        use_orig_params=True,
        lora="litgpt",
        lora_casts_input=False,
        lora_fp32=False,
        quantizes_head=True,
        # litgpt's own requirement is bitsandbytes 0.42.0 until 2024-12
        quantized_input_kept=old_bitsandbytes is not False,
        unties=True,
        compiled="model",
        stray_embedding=job.method.name == "qlora" and below(job.framework, "litgpt", 0, 5) is False,
    )
    if pretrain:
        return (replace(code, label="LitGPT, pretrain", loss="eager_fp32", clips=True),)
    return (code,)


def thunder(job: Job) -> tuple[Code, ...]:
    """lightning-thunder's benchmark_litgpt.py: bf16 weights, cross entropy on bf16 logits, no Fabric around it."""
    second = job.parallel.strategy.startswith("fsdp2")
    code = Code(
        framework="lightning-thunder",
        label="lightning-thunder's LitGPT benchmark",
        programs="litgpt",
        own_families=_FAMILIES,
        loss="eager_bf16" if job.loss == "default" else job.loss,
        logits_through_backward=True,
        logits_through_step=True,
        loss_through_step=True,
        zero_grad="after_step",
        clips=False,
        reentrant=False,
        units="blocks_embedding_norm_head" if second else "blocks",
        unties=True,
        lora="litgpt",
        compiled="model",
        optimizer_impl="fused",
    )
    if job.parallel.strategy.startswith("fsdp1"):
        # --bucketing_mode: "none" (every module is a unit) was the default until 2024-10-31, "block" from then on
        return (code, replace(code, label=f"{code.label}, --bucketing_mode none", units="modules"))
    if second:
        # embedding, final norm and head became units on 2024-09-26
        return (code, replace(code, label=f"{code.label}, before 2024-09-26", units="blocks"))
    return (code,)
