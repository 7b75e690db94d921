"""ShardingStrategy.SHARD_FULL and the like."""

from __future__ import annotations

import difflib
import re

import libcst as cst

from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.model import Edit, ScriptProblem
from oomph.evidence.model import Quote
from oomph.evidence.script.source import Config, Script, argument, dotted, text_of

#: Members of torch.distributed.fsdp.ShardingStrategy, torch 2.0 to 2.13 (tests/diagnose/script compares them with the
#: installed one).
MEMBERS = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")
_ENUMS = (
    "torch.distributed.fsdp.ShardingStrategy",
    "torch.distributed.fsdp.api.ShardingStrategy",
    "torch.distributed.fsdp.fully_sharded_data_parallel.ShardingStrategy",
)
#: Words of `fsdp=` in transformers' TrainingArguments (transformers.trainer_utils.FSDPOption, 4.30 to 5).
WORDS = (
    "full_shard",
    "shard_grad_op",
    "no_shard",
    "hybrid_shard",
    "hybrid_shard_zero2",
    "offload",
    "auto_wrap",
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

        for item in script.of(cst.Subscript):
            if not script.means(item.value, *_ENUMS) or len(item.slice) != 1:
                continue
            index = item.slice[0].slice
            word = text_of(index.value) if isinstance(index, cst.Index) else None
            if word is None or word in MEMBERS:
                continue
            right = meant(word)
            yield ScriptProblem(
                says=f"ShardingStrategy[{word!r}] does not exist.",
                does="The script ends there with a KeyError.",
                fix=f"Say ShardingStrategy.{right}." if right else f"One of {', '.join(MEMBERS[:4])}.",
                paste=f"ShardingStrategy.{right}" if right else "",
                subject=word,
                evidence=(script.quote(item),),
            )
        for call in script.calls:
            value = argument(call, "fsdp")
            if value is not None and _is_arguments(script, call):
                yield from _words(text_of(value) or "", script.quote(value))

    def check_config(self, config: Config) -> Found:
        for key, value, line in config.values:
            if key.rpartition(".")[2] == "fsdp" and isinstance(value, str):
                yield from _words(value, config.quote(line))
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


def _is_arguments(script: Script, call: cst.Call) -> bool:
    """Whether the call makes TrainingArguments of transformers or a child of it: others have an `fsdp`, too."""
    name = dotted(call.func).rpartition(".")[2]
    return name.endswith("TrainingArguments") or any(
        [one.split(".")[0] in ("transformers", "trl") for one in script.meanings(call.func)]
    )


def _words(text: str, quote: Quote) -> Found:
    """Words of TrainingArguments' `fsdp` that it does not have."""
    for word in re.split(r"[\s,]+", text.strip().lower()):
        if not word or word in (*WORDS, "true", "false", "none", "xla", "fsdp2"):
            continue
        right = meant(word).lower().strip("_")
        yield ScriptProblem(
            says=f"fsdp: {word} is no word that TrainingArguments knows.",
            does="The Trainer refuses it when it starts.",
            fix=f"Say {right}." if right else f"Words are {', '.join(WORDS)}.",
            paste=right,
            subject=word,
            evidence=(quote,),
        )


def meant(word: str) -> str:
    """The member that has the same words in another order, or nearly the same letters; "" where none has."""
    for member in MEMBERS:
        if sorted(member.strip("_").split("_")) == sorted(word.strip("_").upper().split("_")):
            return member
    close = difflib.get_close_matches(word.upper(), MEMBERS, 1, 0.8)
    return close[0] if close else ""
