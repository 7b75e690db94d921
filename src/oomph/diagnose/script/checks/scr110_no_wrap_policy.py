"""FSDP around the model as one unit."""

from __future__ import annotations

import libcst as cst

from oomph.diagnose.machine.model import CouldNotTell, Severity
from oomph.diagnose.model import Certainty
from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.facts import FSDP1, FSDP2
from oomph.diagnose.script.model import ScriptProblem
from oomph.evidence.script.source import Script, argument, spread

#: Place of auto_wrap_policy among FullyShardedDataParallel's arguments (module is the first).
_PLACE = 4


class FsdpWithoutAWrapPolicy(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR110"
    cause = "fsdp_without_a_wrap_policy"
    name = "fsdp-without-a-wrap-policy"
    means = (
        "The whole model is one FSDP unit: its forward and its backward gather all parameters at once, on every rank. "
        "What is sharded between steps is whole while the step runs."
    )
    decisive_evidence = "One FSDP call on the model, without auto_wrap_policy, and none on its blocks."
    first_action = (
        "auto_wrap_policy on the blocks' class (FSDP1), or fully_shard on each block before the root (FSDP2)."
    )
    verify = (
        "print(model) shows an FSDP unit for each block; forward holds about one block's parameters whole."
    )
    wrong_advice = "More GPUs: the unit that is gathered stays as large."

    def check(self, script: Script) -> Found:
        calls = script.called(*FSDP1)
        if calls and not script.called(
            "torch.distributed.fsdp.wrap.wrap", "torch.distributed.fsdp.wrap.enable_wrap"
        ):
            several = len(calls) > 1 or any([script.loops(call) for call in calls])
            for call in calls:
                policy = argument(call, "auto_wrap_policy", _PLACE)
                if policy is not None and not (isinstance(policy, cst.Name) and policy.value == "None"):
                    continue
                if policy is None and spread(call):
                    yield CouldNotTell(
                        f"{script.source}, line {script.line(call)}: whether FSDP gets an auto_wrap_policy is in "
                        "what ** or * brings"
                    )
                elif not several:
                    yield self._problem(script, call, "auto_wrap_policy is not given", _POLICY)
        shards = script.called(*FSDP2)
        if len(shards) == 1 and not script.loops(shards[0]) and not _in_a_walk(script, shards[0]):
            yield self._problem(script, shards[0], "fully_shard is called on the root alone", _SHARD)

    def _problem(self, script: Script, call: cst.Call, how: str, paste: str) -> ScriptProblem:
        return ScriptProblem(
            says=f"FSDP has the whole model as one unit: {how}.",
            does="Forward and backward gather all parameters at once on every rank, whatever the world size.",
            fix="Wrap each block by itself, then the root.",
            paste=paste,
            subject="FSDP",
            severity=Severity.WARNING,
            certainty=Certainty.LIKELY,
            evidence=(script.quote(call),),
        )


_POLICY = "auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})"
_SHARD = "for block in model.layers: fully_shard(block)"


def _in_a_walk(script: Script, call: cst.Call) -> bool:
    """Whether the call may run for each module: in a function that is given to apply(), or in a comprehension."""
    above = list(script.above(call))
    if any([isinstance(one, (cst.Lambda, cst.ListComp, cst.GeneratorExp)) for one in above]):
        return True
    function = script.function(call)
    if not isinstance(function, cst.FunctionDef):
        return False
    name = function.name.value
    uses = [node for node in script.of(cst.Name) if node.value == name and node is not function.name]
    in_loops = [node for node in uses if script.loops(node)]
    given = [node for node in uses if isinstance(script.parent(node), cst.Arg)]
    return bool(in_loops or given)
