"""accelerate's `accelerate estimate-memory`: `calculate_maximum_sizes` and its rule for training with Adam.

It knows the parameters, their dtype and Adam: no activations, no sharding, no adapters. Its training estimate is the
largest of its four numbers, as its table shows it.
"""

from __future__ import annotations

from benchmarks.peer.meta import model
from benchmarks.peer.row import REPLICAS, CannotError, Reply, Row

NAME = "accelerate"
PACKAGE = "accelerate"
INSTALL: tuple[str, ...] = ("accelerate",)


def answer(row: Row) -> Reply:
    """What `estimate-memory` prints under "Training using Adam"."""
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes

    if row.method != "full":
        raise CannotError("adapters")
    if row.strategy not in REPLICAS or row.split:
        raise CannotError("sharding")
    total, _ = calculate_maximum_sizes(model(row.config_path, "fp32"))
    low = row.precision["compute"] != "fp32"
    usage = estimate_training_usage(total, "bfloat16" if low else "float32")
    stand_ins: tuple[str, ...] = ("activations",)
    if row.precision["weights"] != "fp32":
        stand_ins += ("weights without an fp32 copy",)
    return Reply(int(max(usage.values())), stand_ins)
