"""ShardingStrategy.SHARD_FULL and the like."""

from __future__ import annotations

import difflib

import libcst as cst

from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.model import Edit, ScriptProblem
from oomph.evidence.script.source import Config, Script

#: Members of torch.distributed.fsdp.ShardingStrategy, torch 2.0 to 2.13 (tests/diagnose/script compares them with the
#: installed one).
MEMBERS = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")
_ENUMS = (
    "torch.distributed.fsdp.ShardingStrategy",
    "torch.distributed.fsdp.api.ShardingStrategy",
    "torch.distributed.fsdp.fully_sharded_data_parallel.ShardingStrategy",
)
_KEYS = ("sharding_strategy", "fsdp_sharding_strategy")


class UnknownShardingStrategy(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR101"
    cause = "unknown_sharding_strategy"
    name = "unknown-sharding-strategy"
    means = "The script names a strategy that FSDP1 does not have: it ends with an AttributeError when it gets there."
    decisive_evidence = (
        f"ShardingStrategy has {', '.join(MEMBERS)} and nothing else. SHARD_FULL, which posts and answers repeat, "
        "was never one of them."
    )
    first_action = "ShardingStrategy.FULL_SHARD: parameters, gradients and optimizer state are all sharded."
    verify = "The script gets past the call that wraps the model."
    wrong_advice = "Another version of PyTorch: none has it."

    def check(self, script: Script) -> Found:
        for node in script.of(cst.Attribute):
            if not script.means(node.value, *_ENUMS):
                continue
            member = node.attr.value
            if member in MEMBERS or member.startswith("__"):
                continue
            right = meant(member)
            start, end = script.span(node.attr)
            yield ScriptProblem(
                says=f"ShardingStrategy.{member} does not exist.",
                does="The script ends there with an AttributeError.",
                fix=f"Say ShardingStrategy.{right}." if right else f"One of {', '.join(MEMBERS[:4])}.",
                paste=f"ShardingStrategy.{right}" if right else "",
                subject=member,
                evidence=(script.quote(node),),
                edits=(Edit(start, end, right),) if right else (),
            )

    def check_config(self, config: Config) -> Found:
        for key, value, line in config.values:
            if key.rpartition(".")[2] not in _KEYS or not isinstance(value, str):
                continue
            if value.isdigit() or value.upper() in MEMBERS:
                continue
            right = meant(value.upper())
            yield ScriptProblem(
                says=f"{key}: {value} is no sharding strategy.",
                does="What reads the configuration refuses it, or ends with an error when it wraps the model.",
                fix=f"Say {right}." if right else f"One of {', '.join(MEMBERS[:4])}.",
                paste=f"{key.rpartition('.')[2]}: {right}" if right else "",
                subject=value,
                evidence=(config.quote(line),),
            )


def meant(word: str) -> str:
    """The member that has the same words in another order, or nearly the same letters; "" where none has."""
    for member in MEMBERS:
        if sorted(member.strip("_").split("_")) == sorted(word.strip("_").upper().split("_")):
            return member
    close = difflib.get_close_matches(word.upper(), MEMBERS, 1, 0.8)
    return close[0] if close else ""
