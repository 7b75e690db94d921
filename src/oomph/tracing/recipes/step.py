"""The training step that recipes describe, on a real model: as transformers' Trainer and plain loops have it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from oomph.phases import Phase
from oomph.tracing.recipes.families import Dimensions, Family, model


@dataclass(frozen=True)
class Choice:
    """One way to train: the fields of a recipe's `Variant`."""

    method: str = "full"
    precision: str = "fp32"
    checkpointing: bool = False
    attention: str = "sdpa"
    optimizer: str = "adamw"
    heads: str = "grouped"
    tied: bool = False


#: Called at the end of each part, with its name and phase.
Mark = Callable[[str, Phase], None]


def train(family: Family, dimensions: Dimensions, choice: Choice, mark: Mark, steps: int) -> None:
    """Loads a model to the GPU and trains it for some steps: forward with the loss, backward, the optimizer's step,
    and gradients set to none. Labels are the input; the attention mask is there and masks nothing."""
    import torch

    net = _prepared(model(family, dimensions, choice.tied, choice.attention), family, dimensions, choice)
    net = net.to("cuda")
    mark("load", Phase.LOAD)
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    for _ in range(steps):
        ids = torch.zeros((dimensions["b"], dimensions["s"]), dtype=torch.int64).to("cuda")
        padding = torch.ones((dimensions["b"], dimensions["s"]), dtype=torch.int64).to("cuda")
        with _autocast(choice):
            loss = net(input_ids=ids, attention_mask=padding, labels=ids, use_cache=False).loss
        mark("forward", Phase.FORWARD)
        loss.backward()
        mark("backward", Phase.BACKWARD)
        optimizer.step()
        mark("optimizer", Phase.OPTIMIZER)
        optimizer.zero_grad()
        del loss, ids, padding
        mark("clear", Phase.OPTIMIZER)


def _autocast(choice: Choice) -> Any:
    import torch

    if choice.precision == "bf16-autocast":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()


def _prepared(net: Any, family: Family, dimensions: Dimensions, choice: Choice) -> Any:
    """Precision, checkpointing and adapters, in the order in which training scripts have them."""
    import torch

    if choice.precision == "bf16":
        net = net.to(torch.bfloat16)
    if choice.checkpointing:
        net.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if choice.method == "lora":
        import peft

        if choice.checkpointing:
            net.enable_input_require_grads()
        config = peft.LoraConfig(
            r=dimensions["rank"],
            lora_alpha=16,
            lora_dropout=0.0,
            target_modules=list(family.targets),
            task_type="CAUSAL_LM",
            fan_in_fan_out=family.name == "gpt2",
        )
        net = peft.get_peft_model(net, config)
    net.train()
    return net
