"""Shapes as the CUDA kernels make them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from oomph.tracing.kernels import missing
from oomph.tracing.patching import Patches
from tests.tracing.kernels.calls import aten, tensor


@pytest.fixture
def recorder():
    with Patches() as patches:
        made = SimpleNamespace(patches=patches)
        missing.install(made)
        yield made


def test_what_was_missing_is_missing_again_afterwards():
    state, gates = tensor(4, 8), tensor(4, 24)
    with Patches() as patches:
        missing.install(SimpleNamespace(patches=patches))
        assert aten._thnn_fused_gru_cell(gates, gates, state)[0].shape == (4, 8)
    with pytest.raises(NotImplementedError):
        aten._thnn_fused_gru_cell(gates, gates, state)


@pytest.mark.usefixtures("recorder")
def test_a_gru_cell_keeps_five_states():
    state, gates, bias = tensor(4, 8), tensor(4, 24), tensor(24)
    new, saved = aten._thnn_fused_gru_cell(gates, gates, state, bias, bias)
    assert (new.shape, saved.shape) == ((4, 8), (4, 40))
    shapes = [it.shape for it in aten._thnn_fused_gru_cell_backward(state, saved, True)]
    assert shapes == [(4, 24), (4, 24), (4, 8), (24,), (24,)]
    assert aten._thnn_fused_gru_cell_backward(state, saved, False)[3:] == (None, None)


@pytest.mark.usefixtures("recorder")
def test_the_gradient_of_a_margin_loss_is_as_large_as_its_input():
    scores, labels = tensor(4, 8), tensor(4, dtype=torch.int64)
    assert aten.multi_margin_loss_backward(tensor(), scores, labels, 1, 1.0).shape == (4, 8)
