"""The options of `oomph plan` that describe a job, in the order of its help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_COUNT = click.IntRange(min=1)
#: Options whose value may be left out: the value that stands in, and what is a value and not the next word.
_OPTIONAL = {
    "--fsdp": ("full", ("full", "no-reshard", "hybrid", "grad-op")),
    "--fsdp1": ("full", ("full", "grad-op", "hybrid", "no-shard")),
    "--checkpointing": ("full", ("none", "full", "selective")),
}


class Optional(click.Command):
    """A command of which some options take a value or none: `--fsdp`, `--fsdp=hybrid`, `--fsdp hybrid`.

    What follows such an option is its value only where it reads like one, so that `--fsdp MODEL` means a model.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with the values that were left out."""
        return super().parse_args(ctx, with_values(args))


def with_values(args: list[str]) -> list[str]:
    """The arguments with a value for each option whose value was left out."""
    result: list[str] = []
    words = iter(range(len(args)))
    for place in words:
        word = args[place]
        if word == "--":
            return [*result, *args[place:]]
        if word not in _OPTIONAL:
            result.append(word)
            continue
        default, values = _OPTIONAL[word]
        following = args[place + 1].lower().replace("_", "-") if place + 1 < len(args) else ""
        number = word == "--checkpointing" and following.isascii() and following.isdigit()
        if following in values or number:
            next(words)
            result.append(f"{word}={following}")
        else:
            result.append(f"{word}={default}")
    return result


def job_options(command: F) -> F:
    """All of them."""
    for group in reversed((_hardware, _parallel, _batch, _method, _numbers, _code, _rest)):
        command = group(command)
    return command


def _chain(*options: Callable[[F], F]) -> Callable[[F], F]:
    def apply(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


def _hardware(command: F) -> F:
    return _chain(
        click.option(
            "--gpu",
            metavar="NAME",
            help="The GPU, with how many (a100-80gb, 8xH100, rtx-4090x2), or a machine type with all its GPUs "
            "(a2-highgpu-8g).  [default: none in particular]",
        ),
        click.option("--machine", metavar="NAME", help="A machine type (p4d.24xlarge), and its host RAM."),
        click.option(
            "--gpus",
            metavar="N|CLOUDS",
            help="GPUs in all, over all machines; or clouds (gcp,aws,azure,lambda or all), whose machine types are "
            "compared for this job.",
        ),
        click.option("--per-node", metavar="N", type=_COUNT, help="GPUs of one machine."),
        click.option(
            "--free",
            metavar="SIZE",
            help="What is free on each GPU now (31GiB), where something else runs there; now: asks nvidia-smi.",
        ),
        click.option(
            "--capacity",
            metavar="SIZE",
            help="What PyTorch can have of each GPU in all (78GiB), where that is not what the GPU leaves.",
        ),
    )(command)


def _parallel(command: F) -> F:
    return _chain(
        click.option("--ddp", is_flag=True, help="DistributedDataParallel: each GPU has the whole model."),
        click.option(
            "--fsdp",
            metavar="[=full|no-reshard|hybrid]",
            help="FSDP2 (fully_shard); alone: full, which reshards after forward.",
        ),
        click.option(
            "--fsdp1",
            metavar="[=full|grad-op|hybrid|no-shard]",
            help="FSDP1 (FullyShardedDataParallel); alone: full.",
        ),
        click.option("--zero", metavar="1|2|3", help="DeepSpeed ZeRO of that stage."),
        click.option(
            "--tensor", "--tp", "tensor", metavar="N", type=_COUNT, help="Ranks of tensor parallelism."
        ),
        click.option(
            "--sequence-parallel",
            is_flag=True,
            help="With --tensor: what lies between the split layers is split along the sequence.",
        ),
        click.option(
            "--context", "--cp", "context", metavar="N", type=_COUNT, help="Ranks of context parallelism."
        ),
        click.option(
            "--pipeline", "--pp", "pipeline", metavar="N", type=_COUNT, help="Stages of pipeline parallelism."
        ),
        click.option(
            "--expert", "--ep", "expert", metavar="N", type=_COUNT, help="Ranks of expert parallelism."
        ),
        click.option(
            "--offload",
            metavar="WHAT",
            multiple=True,
            help="To the host: parameters, optimizer, activations, all (parameters and optimizer), or nvme (optimizer "
            "states on NVMe).",
        ),
    )(command)


def _batch(command: F) -> F:
    return _chain(
        click.option("--batch", metavar="N", type=_COUNT, help="Samples of one forward on one GPU."),
        click.option("--seq", metavar="N", type=_COUNT, help="Tokens of a sample, padding included."),
        click.option("--accumulation", metavar="N", type=_COUNT, help="Forwards of one optimizer step."),
    )(command)


def _method(command: F) -> F:
    return _chain(
        click.option("--method", metavar="NAME", help="full, lora or qlora."),
        click.option(
            "--lora",
            metavar="[RANK]",
            type=_COUNT,
            is_flag=False,
            flag_value=8,
            help="LoRA adapters of that rank (8, as PEFT's, where none is given).",
        ),
        click.option(
            "--lora-targets",
            metavar="NAMES",
            help="Modules with adapters, as PEFT names them (q_proj,v_proj), or all-linear.",
        ),
        click.option("--dora", is_flag=True, help="LoRA with a magnitude of its own (DoRA)."),
        click.option("--qlora", is_flag=True, help="LoRA on frozen weights in nf4, quantised twice."),
        click.option(
            "--quantization",
            metavar="NAME",
            help="How frozen weights are stored: nf4, nf4-double, fp4, fp4-double, int8, gptq4.",
        ),
    )(command)


def _numbers(command: F) -> F:
    return _chain(
        click.option(
            "--precision",
            metavar="NAME",
            help="fp32, tf32, bf16, fp16 (weights and all); bf16-autocast or bf16-mixed (fp32 weights; also fp16-); "
            "bf16-master (bf16 weights and a copy in fp32); fp8.",
        ),
        click.option(
            "--optimizer",
            metavar="NAME",
            help="adamw, adamw-fused, sgd, adafactor, lion, muon, adamw8bit, paged-adamw8bit, torchao-adamw8bit, ..., "
            "or as transformers' optim has it.",
        ),
    )(command)


def _code(command: F) -> F:
    return _chain(
        click.option(
            "--checkpointing",
            metavar="[=none|full|selective|N]",
            help="Activation checkpointing: of every block (full, or nothing after it), per operator, or of every N-th "
            "block.  [default: none]",
        ),
        click.option(
            "--attention",
            metavar="NAME",
            help="eager, sdpa, flash-attention-2 (fa2), flash-attention-3 (fa3), flex, or one kernel of SDPA "
            "(sdpa-flash, sdpa-efficient, sdpa-math).",
        ),
        click.option(
            "--loss",
            metavar="NAME",
            help="default (the framework's), eager-fp32, eager-bf16, chunked-ce, fused-linear-ce (liger), triton-ce, "
            "loss-parallel.",
        ),
        click.option(
            "--objective",
            metavar="NAME",
            help="As TRL trains: dpo, kto, reward, grpo, rloo.  [default: what the model's own class computes]",
        ),
        click.option("--compile", "compiled", is_flag=True, help="torch.compile."),
        click.option(
            "--framework",
            metavar="NAME[=VERSION]",
            multiple=True,
            help="Whose code trains (transformers=5.1, torchtitan, litgpt), and versions of libraries beside it "
            "(peft=0.18).",
        ),
        click.option("--torch", metavar="VERSION", help="The version of PyTorch."),
    )(command)


def _rest(command: F) -> F:
    return _chain(
        click.option(
            "--eval-batch", metavar="N", type=_COUNT, help="Evaluate between steps, with that batch."
        ),
        click.option("--generate", metavar="N", type=_COUNT, help="New tokens that evaluation generates."),
        click.option(
            "--alloc-conf",
            metavar="SETTINGS",
            help="Allocator settings, as in PYTORCH_CUDA_ALLOC_CONF.",
        ),
        click.option(
            "--set",
            "settings",
            metavar="PATH=VALUE",
            multiple=True,
            help="Any field of a job by its name (parallel.forward_prefetch=true, model.config.num_hidden_layers=8); "
            "docs/jobs.md lists them.",
        ),
        click.option(
            "--network", is_flag=True, help="Let an unknown model's config.json be fetched from the hub."
        ),
    )(command)
