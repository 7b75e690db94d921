"""A GradScaler that does not fit."""

from __future__ import annotations

import libcst as cst

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.model import Certainty
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.facts import FSDP1
from oomph.diagnose.script.model import ScriptProblem
from oomph.evidence.script.source import Script, argument

_SCALERS = (
    "torch.cuda.amp.GradScaler",
    "torch.cuda.amp.grad_scaler.GradScaler",
    "torch.amp.GradScaler",
    "torch.amp.grad_scaler.GradScaler",
)
_AUTOCASTS = (
    "torch.autocast",
    "torch.amp.autocast",
    "torch.amp.autocast_mode.autocast",
    "torch.cuda.amp.autocast",
    "torch.cuda.amp.autocast_mode.autocast",
)
_BF16 = ("torch.bfloat16",)


class ScalerThatDoesNotFit(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR109"
    cause = "scaler_that_does_not_fit"
    name = "scaler-that-does-not-fit"
    means = (
        "A GradScaler is for fp16. bfloat16 has float32's range and needs none; with FSDP1 in fp16 it has to be "
        "ShardedGradScaler, which agrees about infinities over all shards."
    )
    decisive_evidence = "The dtype of every autocast in the script, and the class of the scaler."
    first_action = "bf16: leave the scaler out. FSDP1 and fp16: torch.distributed.fsdp.sharded_grad_scaler."
    verify = "Ranks skip the same steps (fp16), or no step is skipped (bf16)."
    wrong_advice = "A scaler as a way to less memory: it changes none."

    def check(self, script: Script) -> Found:
        scalers = [call for call in script.called(*_SCALERS) if not _is_off(call)]
        if not scalers:
            return
        dtypes = [argument(call, "dtype") for call in script.called(*_AUTOCASTS)]
        # torch.autocast(device, dtype, ...), torch.cuda.amp.autocast(enabled, dtype, ...): second in both.
        dtypes = [
            dtype if dtype is not None else argument(call, "dtype", 1)
            for dtype, call in zip(dtypes, script.called(*_AUTOCASTS), strict=True)
        ]
        bf16 = bool(dtypes) and all([dtype is not None and script.means(dtype, *_BF16) for dtype in dtypes])
        for call in scalers:
            if bf16:
                yield ScriptProblem(
                    says="A GradScaler goes with autocast in bfloat16.",
                    does="bfloat16 has float32's range: scaling changes nothing but time, and skips steps for nothing.",
                    fix="Leave the scaler out: loss.backward(), optimizer.step().",
                    subject="GradScaler",
                    severity=Severity.WARNING,
                    evidence=(script.quote(call),),
                )
            elif script.called(*FSDP1):
                yield ScriptProblem(
                    says="FSDP1 goes with a plain GradScaler.",
                    does=(
                        "Each rank looks for infinities in its own shard only: ranks skip different steps and drift "
                        "apart, without an error."
                    ),
                    fix="Take ShardedGradScaler for fp16, or bfloat16 without a scaler.",
                    paste="from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler",
                    subject="GradScaler",
                    certainty=Certainty.CERTAIN if _fp16(script, dtypes) else Certainty.LIKELY,
                    evidence=(script.quote(call),),
                )


def _is_off(call: cst.Call) -> bool:
    enabled = argument(call, "enabled")
    return isinstance(enabled, cst.Name) and enabled.value == "False"


def _fp16(script: Script, dtypes: list[cst.BaseExpression | None]) -> bool:
    return any([dtype is not None and script.means(dtype, "torch.float16", "torch.half") for dtype in dtypes])
