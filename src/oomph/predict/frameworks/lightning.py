"""Lightning's Trainer, LitGPT on Fabric, and lightning-thunder's LitGPT benchmark. Sources: docs/frameworks.md."""

from __future__ import annotations

from dataclasses import replace

from oomph.job.model import Job
from oomph.predict.frameworks.code import Code
from oomph.predict.frameworks.versions import below, text

_FAMILIES = ("llama", "falcon", "gemma", "gemma2", "gpt_neox", "phi")
#: LitGPT's Config gives these llama's class, norm and MLP.
_AS_LLAMA = (("mistral", "llama"), ("phi3", "llama"))
_APRIL, _SEPTEMBER, _NEW = "litgpt-2024-04", "litgpt-2024-09", "litgpt-0.5"
#: What each was recorded for; other families' blocks did not change, or by less than a tensor, and are September's.
_RECORDED = {_APRIL: ("llama", "gemma"), _SEPTEMBER: _FAMILIES, _NEW: ("llama", "gemma2")}
#: Families of which the loss of extensions/thunder/pretrain.py was not recorded.
_OTHERS = ("falcon", "gemma", "gemma2")
_LABELS = {_APRIL: "before 2024-07-22", _SEPTEMBER: "2024-07-22 to 0.5.4", _NEW: "0.5.5 on"}


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
    """LitGPT's finetune scripts, whose optimizer is not fused, or its pretrain scripts, whose is.

    Fabric casts what the model returns to fp32 (convert_output), bf16-true too: part of the recorded losses.
    """
    return tuple(code for generation in _generations(job) for code in _scripts(job, _litgpt(job, generation)))


def _generations(job: Job) -> tuple[str, ...]:
    """Programs by version or date, the likeliest first. RMSNorm keeps its product in fp32 since 2024-07-22 (0.4.6); the
    fused weight is no longer interleaved since 2024-12-26 (0.5.5)."""
    known = [below(job.framework, "litgpt", *numbers) for numbers in ((0, 4, 6), (0, 5, 5))]
    date = text(job.framework, "litgpt-date") or _nightly(job)
    if date and known[0] is None and date != "2024":
        known = [date < "2024.07.22", date < "2024.12.26"]
    family, name = job.model.family, job.model.name.lower()
    late = family == "gemma2" or "llama-3.1" in name or "llama-3.2" in name
    if known[0] is None and date == "2024":
        return (_SEPTEMBER,) if late else (_APRIL, _SEPTEMBER)
    if known[0] is None:
        return (_NEW, _SEPTEMBER)
    return (_APRIL,) if known[0] and not late else (_SEPTEMBER,) if known[1] else (_NEW,)


def _nightly(job: Job) -> str:
    """The day of a nightly build of torch ("2.4.0.dev20240427") as 2024.04.27; "" for another build."""
    day = text(job.framework, "torch").partition(".dev")[2][:8]
    return f"{day[:4]}.{day[4:6]}.{day[6:]}" if len(day) == 8 and day.isdigit() else ""


def _litgpt(job: Job, generation: str) -> Code:
    new = generation == _NEW
    kept = below(job.framework, "bitsandbytes", 0, 43)
    return Code(
        framework="litgpt",
        label=f"LitGPT of {_LABELS[generation]}, finetune",
        programs=generation,
        own_families=_RECORDED[generation],
        written_as=_AS_LLAMA,
        fallback=_SEPTEMBER,
        logits_through_backward=True,
        logits_through_step=True,
        zero_grad="after_step",
        clips=False,
        outputs_to_fp32=True,
        cast_before_loss=True,
        loss_outside=True,
        reentrant=False,
        units="blocks",
        use_orig_params=True,
        lora="litgpt",
        lora_casts_input=False,
        lora_fp32=False,
        quantizes_head=True,
        # it asks for bitsandbytes 0.42.0 up to 0.5.4
        quantized_input_kept=not new if kept is None else kept,
        # Fabric quantises from fp16 (plugins/precision/bitsandbytes.py, quantize), so bf16 products take a cast
        dequantizes_twice=job.precision.compute != "fp16",
        unties=True,
        compiled="model",
        stray_embedding=job.method.name == "qlora"
        and (new if (old := below(job.framework, "litgpt", 0, 5)) is None else not old),
    )


def _scripts(job: Job, code: Code) -> tuple[Code, ...]:
    """The script of the job: lora, full, or either of the pretrain scripts."""
    if job.loss in ("eager_bf16", "triton_ce", "fused_linear_ce"):
        return (replace(code, loss=job.loss),)
    if job.method.name != "full":
        return (replace(code, loss="chunked_ce"),)
    if job.optimizer.impl != "fused":
        return (replace(code, loss="full_finetune_ce"),)
    pretrain = replace(
        code,
        label=code.label.replace("finetune", "pretrain.py"),
        loss="pretrain_ce",
        clips=True,
        optimizer_impl="fused",
    )
    # extensions/thunder/pretrain.py: logits are local to a function, the loss is whole; pretrain.py always compiles
    local = replace(
        pretrain,
        label=code.label.replace("finetune", "extensions/thunder/pretrain.py"),
        loss="whole_ce",
        logits_through_backward=False,
        logits_through_step=False,
        clips=False,
    )
    if dict(_AS_LLAMA).get(job.model.family, job.model.family) in _OTHERS:
        return (pretrain,)
    return (pretrain, local) if job.compile else (local, pretrain)


def thunder(job: Job) -> tuple[Code, ...]:
    """lightning-thunder's benchmark_litgpt.py: bf16 weights, cross entropy on bf16 logits, no Fabric around it."""
    second = job.parallel.strategy.startswith("fsdp2")
    date = text(job.framework, "lightning-thunder-date")
    # requirements/test.txt asks for litgpt 0.3.1 from 2024-06-01 on, and for 0.4.11 from 2024-09-04 on
    programs = _APRIL if date and date < "2024.09" else _SEPTEMBER
    code = Code(
        framework="lightning-thunder",
        label="lightning-thunder's LitGPT benchmark",
        programs=programs,
        own_families=_RECORDED[programs],
        written_as=_AS_LLAMA,
        fallback=_SEPTEMBER,
        loss="eager_bf16" if job.loss == "default" else job.loss,
        loss_outside=True,
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
        old = replace(code, label=f"{code.label}, before 2024-09-26", units="blocks")
        return (old, code) if not date or date < "2024.10" else (code,)
    return (code,)
