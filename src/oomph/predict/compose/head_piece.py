"""The template of what follows the layers: final norm, output layer, and the loss of the code that trains."""

from __future__ import annotations

from typing import Any

from oomph.errors import UsageError
from oomph.predict.compose.kept import Kept
from oomph.predict.compose.mode import Mode
from oomph.predict.compose.scopes import compiled_scope, scope_of, section
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.setup_chosen import recorded_loss
from oomph.predict.engine import losses
from oomph.predict.engine.heap import Tensor
from oomph.predict.engine.piece import Piece, build
from oomph.predict.engine.scope import Scope
from oomph.predict.programs.load import Section

#: Whose loop computes the loss from what the model returned; elsewhere the model does.
_LOSS_OUTSIDE = frozenset(("litgpt", "lightning-thunder", "torchtitan", "torchtune", "minimind"))


def head(setup: Setup, mode: Mode) -> Piece:
    """Final norm, output layer and loss."""
    return _HEADS.of(setup, mode)


def _head(inner: Setup, mode: Mode) -> Piece:
    scope = scope_of(inner, mode)
    code = inner.code
    after = section(inner, "after")
    if code.loss == losses.LINEAR != recorded_loss(inner.variant):
        return _linear_head(inner, scope, after, mode)
    if code.loss == losses.MEAN:
        return _mean_of_logits(scope, after, mode)
    loss = section(inner, "loss")
    root = inner.program.kept["loss"]
    kept = [each for each in inner.program.kept.values() if each != root]
    more: Section | None = loss
    if inner.compiles_loss:
        assert after.outlet is not None
        assert loss.inlet is not None
        after = Section([*after.items, ["link", after.outlet, loss.inlet], *loss.items], after.inlet, root)
        more = None
    if inner.compiles_loss or (inner.compiles_blocks and inner.code.compiled == "model"):
        scope = compiled_scope(inner, mode, after, root if more is None else None)
    if code.framework in _LOSS_OUTSIDE and more is not None:
        scope.returns = frozenset(kept or (each for each in (after.outlet,) if each is not None))
    if recorded_loss(inner.variant) != code.loss and not inner.compiles_loss:
        scope.instead = _instead(inner, code.loss)
    late = code.outputs_to_fp32 and not code.cast_before_loss
    return build(
        scope,
        after,
        more,
        requires=mode.requires,
        pinned=mode.pinned,
        root=root,
        dropped=() if code.logits_through_backward else kept,
        to_fp32=kept if late else (),
        kept=kept if code.logits_through_backward else (),
    )


_HEADS = Kept(_head, 4096)


def _instead(setup: Setup, loss: str) -> Any:
    """What runs in place of the recorded loss. Raises UsageError for a loss that is neither recorded nor composed."""
    if loss == losses.RECORDED:
        return None
    if loss == losses.FUSED:
        return losses.fused_without_autocast(section(setup, "after"), section(setup, "loss"))
    if loss == losses.LOW:
        return losses.low
    if loss == losses.PARALLEL:
        return losses.parallel
    raise UsageError(
        f"unsupported: the loss {loss} with {setup.code.label} is not modelled; `oomph trace` runs the training script "
        "itself."
    )


def _mean_of_logits(scope: Scope, after: Section, mode: Mode) -> Piece:
    """The output layer, and the mean of its result in the caller's code, which keeps the logits."""
    number = after.outlet
    assert number is not None
    return build(
        scope,
        after,
        requires=mode.requires,
        pinned=mode.pinned,
        kept=(number,),
        finish=lambda scope: losses.mean(scope, scope.tensor(number)),
    )


def _linear_head(setup: Setup, scope: Scope, after: Section, mode: Mode) -> Piece:
    """Final norm, then output layer and loss as one kernel."""
    weight = f"{setup.architecture.head}.weight"
    scope.head = weight
    norm, number, _ = losses.split_at_head(after, scope, weight)

    def finish(scope: Scope) -> Tensor:
        trains = setup.weight(weight).trainable and scope.graph is not None
        dtype = "fp32" if setup.precision.startswith("fp32") else "bf16"
        hidden = scope.tensor(number)
        loss = losses.fused_linear(scope, hidden, setup.dims["vocab"], trains, dtype)
        scope.heap.release(hidden.storage)
        return loss

    return build(scope, norm, requires=mode.requires, pinned=mode.pinned, finish=finish)
