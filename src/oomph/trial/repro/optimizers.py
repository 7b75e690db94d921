"""Optimizers as a loop writes them, and as TrainingArguments names them."""

from __future__ import annotations

from oomph.job.model import Job

_IMPLS = {
    "foreach": "foreach=True",
    "fused": "fused=True",
    "for_loop": "foreach=False, fused=False",
    "capturable": "capturable=True",
}
#: TrainingArguments.optim (transformers/training_args.py, OptimizerNames), by name, implementation and type of state.
_NAMES = {
    ("adamw", "foreach", None): "adamw_torch",
    ("adamw", "fused", None): "adamw_torch_fused",
    ("adamw", "bnb", "int8"): "adamw_bnb_8bit",
    ("adamw", "bnb_paged", "int8"): "paged_adamw_8bit",
    ("adamw", "bnb_paged", "fp32"): "paged_adamw_32bit",
    ("adamw", "torchao", "int8"): "adamw_torch_8bit",
    ("adamw", "torchao", "int4"): "adamw_torch_4bit",
    ("lion", "bnb", "fp32"): "lion_32bit",
    ("lion", "bnb", "int8"): "lion_8bit",
    ("lion", "bnb_paged", "fp32"): "paged_lion_32bit",
    ("lion", "bnb_paged", "int8"): "paged_lion_8bit",
}
#: bitsandbytes.optim's classes, by name and type of state; those of paged memory begin with "Paged".
_BNB = {
    ("adamw", "int8"): "AdamW8bit",
    ("adamw", "fp32"): "AdamW32bit",
    ("adam", "int8"): "Adam8bit",
    ("adam", "fp32"): "Adam32bit",
    ("lion", "int8"): "Lion8bit",
    ("lion", "fp32"): "Lion32bit",
}
_RATE = "lr=1e-5"


def loop_optimizer(job: Job) -> str:
    """The call that makes it, over `trained`; "" for one that this does not write."""
    optimizer = job.optimizer
    if optimizer.impl in ("bnb", "bnb_paged"):
        name = _BNB.get((optimizer.name, optimizer.state or "fp32"))
        paged = "Paged" if optimizer.impl == "bnb_paged" else ""
        return f"bitsandbytes.optim.{paged}{name}(trained, {_RATE})" if name else ""
    if optimizer.name == "adafactor":
        return f"torch.optim.Adafactor(trained, {_RATE})"
    how = _IMPLS.get(optimizer.impl)
    if how is None:
        return ""
    if optimizer.name == "sgd" and optimizer.impl != "capturable":
        momentum = f", momentum={optimizer.momentum!r}" if optimizer.momentum else ""
        return f"torch.optim.SGD(trained, {_RATE}{momentum}, {how})"
    kind = {"adamw": "AdamW", "adam": "Adam"}.get(optimizer.name)
    return f"torch.optim.{kind}(trained, {_RATE}, {how})" if kind else ""


def trainer_optimizer(job: Job) -> str:
    """The value of `optim`; "" for one that Trainer has no name for."""
    optimizer = job.optimizer
    if optimizer.name == "adafactor":
        return "adafactor"
    if optimizer.name == "sgd":
        return "" if optimizer.momentum or optimizer.impl != "foreach" else "sgd"
    own = optimizer.impl.startswith(("bnb", "torchao"))
    return _NAMES.get((optimizer.name, optimizer.impl, (optimizer.state or "fp32") if own else None), "")
