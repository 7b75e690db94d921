"""Inputs of checkpointed layers on the host: they go there behind forward and come back for the recomputation.

Source: trl/models/activation_offloading.py and torchtune/training/_activation_offloading.py (OffloadActivations: with
streams, the five tensors that were saved last are still on the GPU; what comes back is kept until the node after it has
run). docs/terms/activation-offload.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oomph.errors import UsageError
from oomph.memory.categories import Category

if TYPE_CHECKING:
    from oomph.predict.compose.forward import Forward, Layer

#: max_fwd_stash_size
STASH = 5


def away(forward: Forward) -> None:
    """A checkpointed layer has run forward: the input of an earlier one is on the host by now. Raises UsageError for
    reentrant checkpoints under TRL, whose context is open in backward too, so that all that is recomputed would go to
    the host."""
    setup, layers = forward.setup, forward.layers
    if not setup.job.activation_offload:
        return
    if setup.job.framework.name.lower() == "trl" and forward.reentrant(len(layers) - 1):
        raise UsageError(
            "unsupported: offloading activations under TRL with reentrant checkpoints; `oomph trace` runs the training "
            "script itself."
        )
    place = len(layers) - 1 - STASH
    if place < 0 or (place == 0 and (forward.front.held or forward.leaf >= 0)):
        return
    forward.sink.free(layers[place].inlet)
    layers[place].inlet = -1


def back(forward: Forward, layer: Layer, size_bytes: int) -> None:
    """A layer's input comes back from the host; beside it is the one that came before."""
    if layer.inlet >= 0:
        return
    sink = forward.sink
    if not forward.came_back:
        forward.came_back = True
        forward.left.append(sink.alloc(size_bytes, Category.ACTIVATIONS, "input of the layer before"))
    layer.inlet = sink.alloc(size_bytes, Category.ACTIVATIONS, "input back from the host")
