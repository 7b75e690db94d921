"""SHARD_GRAD_OP, reshard_after_forward=False."""

from __future__ import annotations

import libcst as cst

from oomph.diagnose.machine.model import Severity
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.checks.scr101_sharding_strategy import _ENUMS as ENUMS
from oomph.diagnose.script.facts import FSDP2
from oomph.diagnose.script.model import ScriptProblem
from oomph.evidence.script.source import Config, Script, argument

_SAYS = "keeps parameters whole from forward until backward has ended"
_DOES = (
    "It needs more memory than FULL_SHARD, by up to all parameters in the precision in which they are gathered, and "
    "saves one gathering a step. At the start both are equal."
)


class ShardGradOp(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR112"
    cause = "shard_grad_op"
    name = "shard-grad-op-for-less-memory"
    means = (
        "SHARD_GRAD_OP (ZeRO stage 2; reshard_after_forward=False) shards gradients and optimizer state, and keeps "
        "parameters whole through the step. It is the faster choice, not the smaller one, and no checkpointing."
    )
    decisive_evidence = "The strategy that the script names."
    first_action = "With memory to spare, leave it. Against OOM: FULL_SHARD (reshard_after_forward=True)."
    verify = "The peaks of forward and backward fall by what was kept whole."
    wrong_advice = "SHARD_GRAD_OP to lower memory: it raises it."

    def check(self, script: Script) -> Found:
        for node in script.of(cst.Attribute):
            if node.attr.value == "SHARD_GRAD_OP" and script.means(node.value, *ENUMS):
                yield self._note(f"ShardingStrategy.SHARD_GRAD_OP {_SAYS}.", script.quote(node))
        for call in script.called(*FSDP2):
            value = argument(call, "reshard_after_forward")
            if isinstance(value, cst.Name) and value.value == "False":
                yield self._note(f"reshard_after_forward=False {_SAYS}.", script.quote(call))

    def check_config(self, config: Config) -> Found:
        for key, value, line in config.values:
            if key.rpartition(".")[2].endswith("sharding_strategy") and str(value).upper() in (
                "SHARD_GRAD_OP",
                "2",
            ):
                yield self._note(f"{key}: {value} {_SAYS}.", config.quote(line))

    def _note(self, says: str, quote: object) -> ScriptProblem:
        from oomph.evidence.model import Quote

        assert isinstance(quote, Quote)
        return ScriptProblem(
            says=says,
            does=_DOES,
            fix="Against OOM, say FULL_SHARD (reshard_after_forward=True).",
            subject="sharding",
            severity=Severity.NOTE,
            evidence=(quote,),
        )
