"""The loop that is traced: transformers' class, a plain loop of PyTorch, two steps and an evaluation."""

from __future__ import annotations

import contextlib
from typing import Any

RANK = 8


def train(case: dict[str, Any]) -> None:
    """Two optimizer steps, then a forward without gradients."""
    import torch

    bare = _model(case)
    model = _wrapped(case, bare)
    model.train()
    optimizer = _optimizer(case, model)
    tokens = torch.randint(0, case["config"]["vocab_size"], (case["batch"], case["sequence"]), device="cuda")
    mask = torch.ones_like(tokens)
    cast = case["precision"] == "bf16-autocast" and not case["strategy"].startswith("fsdp")

    def forward() -> Any:
        with torch.autocast("cuda", dtype=torch.bfloat16) if cast else contextlib.nullcontext():
            return model(input_ids=tokens, attention_mask=mask, labels=tokens, use_cache=False)

    out = loss = None
    for _ in range(2):
        for each in optimizer:
            each.zero_grad()
        for micro in range(case["accumulation"]):
            with _quiet(case, model, micro):
                out = forward()
                loss = out.loss
                loss.backward()
        if case["impl"] != "in_backward":
            for each in optimizer:
                each.step()
    if case["evaluates"]:
        model.eval()
        with torch.no_grad():
            evaluated = forward()
            del evaluated
    del out, loss


def _model(case: dict[str, Any]) -> Any:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(case["family"], **case["config"])
    dtype = torch.bfloat16 if case["precision"] == "bf16" else torch.float32
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=case["attention"])
    if case["quantized"]:
        _quantize(case, model)
    if not case["strategy"].startswith("fsdp"):
        model.to("cuda")
    for name, parameter in model.named_parameters():
        if name.startswith(tuple(case["frozen"])) and case["frozen"]:
            parameter.requires_grad_(False)
    if case["lora"]:
        model = _adapted(case, model)
    if case["checkpointing"]:
        model.gradient_checkpointing_enable({"use_reentrant": case["reentrant"]})
        if case["lora"]:
            model.enable_input_require_grads()
    return model


def _quantize(case: dict[str, Any], model: Any) -> None:
    """bitsandbytes' layers for all linear ones but the output layer, as transformers replaces them."""
    import bitsandbytes
    import torch

    for name, module in list(model.named_modules()):
        if not isinstance(module, torch.nn.Linear) or name == "lm_head":
            continue
        made = bitsandbytes.nn.Linear4bit(
            module.in_features,
            module.out_features,
            bias=module.bias is not None,
            compute_dtype=torch.bfloat16,
            compress_statistics=case["double"],
            quant_type=case["quantized"],
        )
        made.requires_grad_(False)
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, made)
    model.is_loaded_in_4bit = True


def _adapted(case: dict[str, Any], model: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    targets = list(case["lora"])
    settings = LoraConfig(
        r=RANK,
        target_modules="all-linear" if targets == ["all-linear"] else targets,
        lora_dropout=case["dropout"],
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, settings, autocast_adapter_dtype=case["lora_dtype"] == "fp32")


def _wrapped(case: dict[str, Any], model: Any) -> Any:
    import os

    import torch

    strategy = case["strategy"]
    if strategy == "none":
        return model
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    if strategy == "ddp":
        return torch.nn.parallel.DistributedDataParallel(
            model, device_ids=[0], gradient_as_bucket_view=case["view"]
        )
    mixed = case["precision"] == "bf16-autocast"
    return _fsdp1(strategy, model, mixed) if strategy.startswith("fsdp1") else _fsdp2(strategy, model, mixed)


def _layers(model: Any) -> list[Any]:
    import torch

    lists = [each for each in model.modules() if isinstance(each, torch.nn.ModuleList)]
    return list(next(each for each in lists if len(each) > 1))


def _fsdp2(strategy: str, model: Any, mixed: bool) -> Any:
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if mixed else None, reduce_dtype=torch.float32 if mixed else None
    )
    stays = strategy == "fsdp2_no_reshard"
    for layer in _layers(model):
        fully_shard(layer, mp_policy=policy, reshard_after_forward=not stays)
    fully_shard(model, mp_policy=policy, reshard_after_forward=not stays)
    return model


def _fsdp1(strategy: str, model: Any, mixed: bool) -> Any:
    import functools

    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

    kinds = {type(each) for each in _layers(model)}
    precision = MixedPrecision(torch.bfloat16, torch.float32) if mixed else None
    return FullyShardedDataParallel(
        model,
        sharding_strategy=ShardingStrategy[strategy.removeprefix("fsdp1_").upper()],
        auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls=kinds),
        mixed_precision=precision,
        device_id=torch.cuda.current_device(),
        use_orig_params=True,
    )


def _quiet(case: dict[str, Any], model: Any, micro: int) -> Any:
    """Micro-batches before the last do not reduce gradients."""
    if case["strategy"] == "ddp" and micro < case["accumulation"] - 1:
        return model.no_sync()
    return contextlib.nullcontext()


def _optimizer(case: dict[str, Any], model: Any) -> list[Any]:
    import torch

    name, impl = case["optimizer"], case["impl"]
    trained = [each for each in model.parameters() if each.requires_grad]
    if impl == "in_backward":
        made = {each: torch.optim.AdamW([each]) for each in trained}

        def step(parameter: Any) -> None:
            made[parameter].step()
            made[parameter].zero_grad()

        for each in trained:
            each.register_post_accumulate_grad_hook(step)
        return list(made.values())
    how = {"foreach": impl == "foreach", "fused": impl == "fused"}
    if name == "sgd":
        return [torch.optim.SGD(trained, lr=0.1, momentum=case["momentum"], **how)]
    if name == "adafactor":
        return [torch.optim.Adafactor(trained)]
    if impl in ("bnb", "bnb_paged"):
        import bitsandbytes

        kind = bitsandbytes.optim.AdamW8bit if impl == "bnb" else bitsandbytes.optim.PagedAdamW8bit
        return [kind(trained)]
    return [torch.optim.AdamW(trained, **how)]
