"""What is traced: transformers' `generate`, its Trainer, and TRL's trainers, on a small Llama made in memory."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any


def run(case: dict[str, Any]) -> None:
    """The case's script."""
    kind = case["kind"]
    if kind == "generate":
        _generate(case)
    elif kind == "evaluate":
        _evaluate(case)
    else:
        _prefers(case)


def _model(case: dict[str, Any]) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification

    config = LlamaConfig(**case["config"], eos_token_id=1, pad_token_id=2, bos_token_id=3)
    if case["kind"] == "reward":
        config.num_labels = 1
    dtype = torch.float32 if case["precision"].startswith("fp32") else torch.bfloat16
    kind = LlamaForSequenceClassification if case["kind"] == "reward" else LlamaForCausalLM
    return kind._from_config(config, dtype=dtype)


def _generate(case: dict[str, Any]) -> None:
    import torch

    model = _model(case).to("cuda")
    cast = case["precision"].endswith("autocast")

    def autocast() -> Any:
        return torch.autocast("cuda", dtype=torch.bfloat16) if cast else contextlib.nullcontext()

    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    tokens = torch.randint(5, 1000, (case["batch"], case["length"]), device="cuda")
    out = loss = None
    for _ in range(2):
        optimizer.zero_grad()
        with autocast():
            out = model(input_ids=tokens, labels=tokens, use_cache=False)
            loss = out.loss
        loss.backward()
        optimizer.step()
    asked = case["evaluation"]
    prompts = torch.randint(5, 1000, (asked["batch"], asked["sequence"]), device="cuda")
    forward = model.forward

    def within(*args: Any, **kwargs: Any) -> Any:
        # As accelerate wraps a model that it prepares for mixed precision.
        with autocast():
            return forward(*args, **kwargs)

    if cast:
        within.__signature__ = __import__("inspect").signature(forward)  # type: ignore[attr-defined]
        model.forward = within
    model.eval().generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        max_new_tokens=asked["generate"],
        num_beams=asked.get("beams", 1),
        do_sample=False,
    )
    del out, loss


def _evaluate(case: dict[str, Any]) -> None:
    import torch
    from datasets import Dataset
    from transformers import Trainer, TrainingArguments

    rows = [
        {"input_ids": list(range(length)), "labels": list(range(length))} for length in [case["length"]] * 16
    ]
    asked = case["evaluation"]
    held = [{"input_ids": list(range(asked["sequence"])), "labels": list(range(asked["sequence"]))}]

    def collate(samples: list[dict[str, Any]]) -> dict[str, Any]:
        return {key: torch.tensor([each[key] for each in samples]) for key in samples[0]}

    trainer = Trainer(
        _model(case),
        args=TrainingArguments(
            output_dir="out",
            per_device_train_batch_size=case["batch"],
            per_device_eval_batch_size=asked["batch"],
            eval_accumulation_steps=asked.get("accumulation_steps"),
            report_to="none",
            max_steps=2,
            save_strategy="no",
            disable_tqdm=True,
            **case["settings"],
        ),
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(held * asked["samples"]),
        data_collator=collate,
        compute_metrics=(lambda _: {}) if asked.get("keep_logits") else None,
    )
    trainer.train()
    trainer.evaluate()


def _tokenizer(size: int) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = {"unk_token": "w0", "eos_token": "w1", "pad_token": "w2"}
    words = {f"w{place}": place for place in range(size)}
    core = Tokenizer(models.WordLevel(words, special["unk_token"]))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=core, padding_side="left", **special)


def _words(count: int, start: int) -> str:
    return " ".join(f"w{place}" for place in range(start, start + count))


def _prefers(case: dict[str, Any]) -> None:
    import trl
    from datasets import Dataset
    from peft import LoraConfig

    kind, prompt, rest = case["kind"], case["prompt"], case["length"] - case["prompt"]
    row: dict[str, Any] = {"prompt": _words(prompt, 5)}
    if kind == "reward":
        tokens = list(range(5, 5 + case["length"]))
        row = {"chosen_ids": tokens, "rejected_ids": tokens}
    elif kind == "dpo":
        # One token of each completion is the end that the trainer adds.
        row |= {"chosen": " " + _words(rest - 1, 500), "rejected": " " + _words(rest - 1, 1500)}
    elif kind == "kto":
        row |= {"completion": " " + _words(rest - 1, 500), "label": True}
    data = Dataset.from_list([row] * 64)
    name = {"dpo": "DPO", "grpo": "GRPO", "kto": "KTO", "reward": "Reward"}[kind]
    settings = {**case["settings"]}
    if kind == "grpo":
        settings["max_completion_length"] = rest
    else:
        settings["max_length"] = case["length"]
    args = getattr(trl, f"{name}Config")(
        output_dir="out",
        per_device_train_batch_size=case["batch"],
        report_to="none",
        max_steps=2,
        save_strategy="no",
        disable_tqdm=True,
        logging_strategy="no",
        **settings,
    )
    more: dict[str, Any] = {}
    if case["lora"]:
        more["peft_config"] = LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    elif kind in ("dpo", "kto") and not settings.get("precompute_ref_log_probs"):
        more["ref_model"] = _model(case)
    if kind == "grpo":
        # The reference is loaded by the model's name, and this one has none.
        trainers: Any = importlib.import_module("trl.trainer.grpo_trainer")
        trainers.create_model_from_path = lambda *_, **__: _model(case)
        more["reward_funcs"] = lambda completions, **_: [float(place) for place in range(len(completions))]
    getattr(trl, f"{name}Trainer")(
        _model(case),
        args=args,
        train_dataset=data,
        processing_class=_tokenizer(case["vocabulary"]),
        **more,
    ).train()
