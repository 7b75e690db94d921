"""Fewer bits: autocast instead of fp32, half-precision weights instead of autocast. Only where the user allows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from oomph.job.model import DType, Job, Precision
from oomph.remedy.changes.base import EVERYWHERE, Change
from oomph.remedy.changes.cards import capability
from oomph.remedy.changes.written import written

_AUTOCAST = {
    "transformers": "{dtype}=True,",
    "axolotl": "{dtype}: true",
    "llamafactory": "{dtype}: true",
    "lightning": 'Trainer(..., precision="{dtype}-mixed")',
    "litgpt": "--precision {dtype}-mixed",
    "deepspeed": '"torch_autocast": {"enabled": true, "dtype": "{torch}"}',
    "accelerate": 'Accelerator(mixed_precision="{dtype}")',
    "megatron": "--{dtype}",
    "": 'with torch.autocast("cuda", dtype=torch.{torch}):\n    loss = model(**batch).loss',
}
_PURE = {
    "transformers": "AutoModelForCausalLM.from_pretrained(..., dtype=torch.{torch})   # torch_dtype before 4.56; "
    "and no {dtype}=True",
    "axolotl": "bfloat16: true\nbf16: false",
    "llamafactory": "pure_bf16: true",
    "torchtune": "dtype: {dtype}",
    "torchtitan": '[training]\ndtype = "{torch}"',
    "lightning": 'Trainer(..., precision="{dtype}-true")',
    "litgpt": "--precision {dtype}-true",
    "": "model.to(torch.{torch})",
}
_AMPERE = (8, 0)
_TORCH = {"bf16": "bfloat16", "fp16": "float16"}


@dataclass(frozen=True)
class LowerDtype(Change):
    """`to` autocast (fp32 weights, products in half precision) or pure (weights in half precision, and with them
    gradients and states)."""

    to: Literal["autocast", "pure"]

    code = "lower-dtype"
    axis = "precision"
    numerics = "changed"
    phases = EVERYWHERE
    needs = "precision"

    @property
    def title(self) -> str:
        """With its value."""
        if self.to == "autocast":
            return "products in half precision (autocast) over fp32 weights"
        return "weights, gradients and states in bf16"

    def applies(self, job: Job) -> str | None:
        """Where there are more bits now, and the card has the type."""
        now = job.precision
        if self.to == "autocast":
            if now.compute not in ("fp32", "tf32"):
                return f"Products are in {now.compute} already."
            return None
        if now.weights in ("bf16", "fp16") and not now.master:
            return f"Weights are {now.weights} already."
        if job.method.name != "full":
            return "Frozen weights have the type that the method asks for."
        return (
            None
            if self._half(job) == "bf16"
            else "Weights in fp16 lose their updates, and the card has no bf16."
        )

    def _half(self, job: Job) -> DType:
        found = capability(job)
        return "fp16" if found is not None and found < _AMPERE else "bf16"

    def apply(self, job: Job) -> Job:
        """Types of weights and products."""
        half = self._half(job)
        if self.to == "autocast":
            return replace(job, precision=replace(job.precision, compute=half, autocast=True))
        precision = Precision(weights=half, compute=half, reduce=job.precision.reduce)
        state = None if job.optimizer.state in ("fp32", "bf16", "fp16") else job.optimizer.state
        return replace(job, precision=precision, optimizer=replace(job.optimizer, state=state))

    def lines(self, job: Job) -> tuple[str, ...]:
        """By framework."""
        half = self._half(job)
        table = _AUTOCAST if self.to == "autocast" else _PURE
        return written(job, table, dtype=half, torch=_TORCH[half])

    def verify(self, job: Job) -> str:
        """The types."""
        del job
        if self.to == "autocast":
            return "Inside autocast the output of a linear module is in half precision; parameters stay fp32."
        return "next(model.parameters()).dtype is torch.bfloat16; small updates may be lost: compare losses."


def options(job: Job) -> tuple[Change, ...]:
    """One step down, or two."""
    del job
    return (LowerDtype("autocast"), LowerDtype("pure"))
