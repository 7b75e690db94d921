"""Arguments that FSDP does not have."""

from __future__ import annotations

import difflib

import libcst as cst

from oomph.diagnose.script.base import Found, ScriptCheck
from oomph.diagnose.script.facts import FSDP1, FSDP2
from oomph.diagnose.script.model import ScriptProblem
from oomph.evidence.script.source import Script

#: Arguments of FullyShardedDataParallel (torch 1.12 to 2.13) and of fully_shard (2.4 to 2.13): any that one of them
#: had. tests/diagnose/script compares them with the installed one.
FSDP1_ARGUMENTS = (
    "module",
    "process_group",
    "sharding_strategy",
    "cpu_offload",
    "auto_wrap_policy",
    "backward_prefetch",
    "mixed_precision",
    "ignored_modules",
    "param_init_fn",
    "device_id",
    "sync_module_states",
    "forward_prefetch",
    "limit_all_gathers",
    "use_orig_params",
    "ignored_states",
    "ignored_parameters",
    "device_mesh",
)
FSDP2_ARGUMENTS = (
    "module",
    "mesh",
    "reshard_after_forward",
    "shard_placement_fn",
    "mp_policy",
    "offload_policy",
    "ignored_params",
    "dp_mesh_dims",
)


class UnknownFsdpArgument(ScriptCheck):
    """See the class attributes: they are the check's documentation."""

    code = "SCR118"
    cause = "unknown_fsdp_argument"
    name = "unknown-fsdp-argument"
    means = (
        "FSDP gets an argument that it does not have: the script ends with a TypeError. There is no shard size: there "
        "are as many shards as ranks in the group (or in the mesh's shard dimension)."
    )
    decisive_evidence = "The names of the arguments in the call."
    first_action = "Leave it out. For shards within a node, HYBRID_SHARD or a two-dimensional mesh."
    verify = "The script gets past the call that wraps the model."
    wrong_advice = "Looking for a setting of the shard size."

    def check(self, script: Script) -> Found:
        for names, known, what in (
            (FSDP1, FSDP1_ARGUMENTS, "FullyShardedDataParallel"),
            (FSDP2, FSDP2_ARGUMENTS, "fully_shard"),
        ):
            for call in script.called(*names):
                for one in call.args:
                    if one.keyword is not None and one.keyword.value not in known:
                        yield self._problem(script, one, known, what)

    def _problem(self, script: Script, one: cst.Arg, known: tuple[str, ...], what: str) -> ScriptProblem:
        assert one.keyword is not None
        word = one.keyword.value
        close = difflib.get_close_matches(word, known, 1, 0.75)
        size = any([part in word for part in ("shard_size", "num_shards", "shards", "sharding_size")])
        return ScriptProblem(
            says=f"{what} has no argument {word}.",
            does="The script ends there with a TypeError."
            + (" The number of shards is the number of ranks; it cannot be set by itself." if size else ""),
            fix=f"Did you mean {close[0]}?" if close and not size else "Leave it out.",
            subject=word,
            evidence=(script.quote(one.keyword),),
        )
