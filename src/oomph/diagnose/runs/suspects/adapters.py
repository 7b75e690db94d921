"""Versions of PEFT, bitsandbytes and TRL. Source: docs/frameworks.md, which names file and line at each version."""

from __future__ import annotations

from oomph.diagnose.runs.suspects.version_kind import Known, VersionKind


class Adapters(VersionKind):
    """What adapters and quantised weights are made by."""

    name = "adapter library version"
    order = 42
    libraries = ("peft", "bitsandbytes", "trl", "unsloth", "torchao", "galore-torch")
    known = (
        Known(
            "peft", "0.12",
            "adapters are made in fp32 whatever the base weights' type (autocast_adapter_dtype): their "
            "gradients and states "
            "double, and their inputs are cast",
            "docs/frameworks.md (adapters)",
            direction=1, phases=("load", "forward", "backward", "optimizer"), parts=("alive.before",
                                 "alive.added"), weight=7.0,
        ),
        Known(
            "bitsandbytes", "0.43",
            "4-bit products do not keep their input any more until the graph ends",
            "docs/frameworks.md (quantised weights)",
            direction=-1, phases=("forward", "backward"), parts=("forward.kept",), weight=7.0,
        ),
        Known(
            "trl", "0.27",
            "gradient checkpoints are not reentrant any more",
            "docs/frameworks.md (around the model)",
            phases=("forward", "backward"), parts=("forward.kept",), weight=5.0,
        ),
    )  # fmt: skip
    default = "what is cast, kept or prepared around adapters and quantised weights may differ between these versions"
    default_weight = 4.0
