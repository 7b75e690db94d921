"""Types of weights, activations and quantisation."""

from __future__ import annotations

import re

from oomph.diagnose.runs.model import Change, Suspicion
from oomph.diagnose.runs.situation import Situation
from oomph.diagnose.runs.suspects.base import Judged, Kind, argument, sign
from oomph.units import format_bytes

_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "uint8": 1, "int8": 1, "float8_e4m3fn": 1}
_SHARE = re.compile(r"([a-z][a-z0-9_]*) (\d+)")


class Precision(Kind):
    """dtypes, autocast, quantisation."""

    name = "precision"
    order = 24
    keys = (
        argument("bf16", "fp16", "tf32", "half_precision_backend", "mixed_precision", "torch_dtype", "dtype",
                 "precision",
                 "load_in_4bit", "load_in_8bit", "quantization", "quantize", "bnb_4bit_.+", "fp8", "amp", "param_dtype",
                 "mixed_precision_param", "mixed_precision_reduce", "bf16_full_eval", "fp16_full_eval", "use_amp"),
        r"model\.(?:dtypes|dtype|torch_dtype)",
        r"model\.quantization\..+",
        r"environment\.(?:ACCELERATE_MIXED_PRECISION|NVIDIA_TF32_OVERRIDE)",
    )  # fmt: skip

    def judge(self, change: Change, situation: Situation) -> Judged:
        """Weights by the types that the model had; else what types do."""
        del situation
        sizes = [weight_bytes(value) for value in (change.before, change.after)]
        if change.key.endswith("dtypes") and sizes[0] and sizes[1]:
            difference = sizes[1] - sizes[0]
            return Judged(
                f"the parameters of this rank take {format_bytes(sizes[1])} in these types and took "
                f"{format_bytes(sizes[0])}; gradients and optimizer state follow the types of what trains",
                Suspicion.LIKELY,
                direction=sign(difference),
                phases=("load", "forward", "backward", "optimizer", "eval", "save"),
                parts=("alive.before", "alive.between"),
                expected_bytes=difference or None,
                weight=9.0,
            )
        if "tf32" in change.key.lower():
            return Judged("TF32 changes how products are computed, not what is stored", Suspicion.UNLIKELY)
        return Judged(
            "types decide the bytes of weights, activations, gradients and optimizer state: fp32 takes twice "
            "bf16; under "
            "autocast a bf16 copy of fp32 weights comes on top",
            Suspicion.LIKELY,
            phases=("load", "forward", "backward", "optimizer"),
            parts=("alive.before", "alive.between", "forward.kept"),
            weight=7.5,
        )


def weight_bytes(value: object) -> int | None:
    """Bytes of "bfloat16 8030261248, float32 1024"; None where a type is not known."""
    found = _SHARE.findall(str(value))
    if not found or any(name not in _BYTES for name, _ in found):
        return None
    return sum(_BYTES[name] * int(count) for name, count in found)
