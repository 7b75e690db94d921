"""The optimizer: its state lives from the first step on, its temporaries during each."""

from __future__ import annotations

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument, sign
from oomph.units import format_bytes

#: Bytes of state per parameter that trains in fp32 (the moments in the parameter's type; bitsandbytes' in 8 bits).
_STATE = {
    "adamw": 8, "adamw_torch": 8, "adamw_torch_fused": 8, "adamw_hf": 8, "adam": 8, "adamw_apex_fused": 8, "fused": 8,
    "foreach": 8, "adamw_anyprecision": 8, "adamw_bnb_8bit": 2, "adamw_8bit": 2, "paged_adamw_8bit": 0,
    "paged_adamw_32bit": 0, "paged_adamw": 0, "lion_32bit": 4, "lion_8bit": 1, "lion": 4, "sgd": 0, "rmsprop": 4,
    "adagrad": 4, "adafactor": 0, "muon": 4,
}  # fmt: skip
_FOREACH = ("torch/optim/optimizer.py (foreach: about one copy of the parameters more at the peak)",)


class Optimizer(Kind):
    """Which optimizer, and how it is implemented."""

    name = "optimizer"
    order = 21
    keys = (
        argument("optim", "optimizer", "optimizer_name", "optim_args", "optimizer_type", "fused", "foreach",
                 "use_8bit_adam",
                 "optim_target_modules", "momentum", "optimizer_state_dtype", "adafactor", "offload_optimizer"),
        r"arguments\.(?:.+\.)?optimizer\.(?:name|type|implementation|_target_)",
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """State by bytes per trained parameter, where one rank holds all of it."""
        before, after = (_STATE.get(_name(value)) for value in (change.before, change.after))
        trained = situation.before.number("model.trainable")
        alone = (situation.before.number("world_size") or 1) == 1
        if before is not None and after is not None and before != after:
            expected = round(trained * (after - before)) if trained and alone else None
            number = "" if expected is None else f", {format_bytes(abs(expected))} for all that train"
            return Judged(
                f"its state takes {after} bytes per fp32 parameter on the GPU and took {before}{number}; half "
                f"as much where "
                "parameters are bf16",
                Suspicion.LIKELY,
                direction=sign(after - before),
                phases=("optimizer", "forward", "backward"),
                parts=("alive.added", "alive.between"),
                expected_bytes=expected,
                weight=8.0,
            )
        if change.key.rpartition(".")[2] in ("fused", "foreach") or before is not None:
            return Judged(
                "a foreach step needs temporaries of about the parameters' size, a fused one hardly any: the "
                "peak of the "
                "optimizer step changes, not what stays",
                Suspicion.LIKELY,
                phases=("optimizer",),
                sources=_FOREACH,
                weight=5.0,
            )
        return Judged(
            "an optimizer's state is alive from the first step on, and its temporaries during each step",
            Suspicion.LIKELY,
            phases=("optimizer", "forward", "backward"),
            parts=("alive.added", "alive.between"),
            weight=5.0,
        )


def _name(value: object) -> str:
    return str(value).strip().lower().rpartition(".")[2]
