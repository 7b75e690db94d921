"""Recurrent layers as cuDNN runs them."""

from __future__ import annotations

import dataclasses

import pytest

from oomph.tracing.recorder.recurrent import GRU, LSTM, Layers
from tests.tracing.programs import traced

_WEIGHTS = 4 * (
    64 * 8 + 64 * 16 + 2 * 64 + 2 * 64 * 16 + 2 * 64
)  # float32 of two LSTM layers, 8 inputs, 16 states


@pytest.mark.parametrize(
    ("mode", "weights", "reserve", "workspace"),
    [(GRU, 2_279_370, 864_000_000, 13_169_920), (LSTM, 3_038_090, 736_000_000, 17_730_560)],
)
def test_the_sizes_that_cudnn_gave(mode: int, weights: int, reserve: int, workspace: int) -> None:
    # pytorch/pytorch issue 2895; a linear layer of 3210 weights is in the count.
    what = Layers(mode, 320, 0, 4, 1, 250, 100, 4, weights - 3210, dropout=False)
    assert what.reserve() == reserve
    assert what.workspace(train=True) == pytest.approx(workspace, rel=0.01)
    both = dataclasses.replace(what, directions=2)
    assert both.reserve() == 2 * reserve
    assert dataclasses.replace(what, dropout=True).reserve() > reserve


def test_forward_and_backward_in_order() -> None:
    seen = traced("""
        lstm = torch.nn.LSTM(8, 16, 2, batch_first=True).cuda()
        x = torch.randn(3, 5, 8, device="cuda", requires_grad=True)
        mark()
        out, (h, c) = lstm(x)
        print(tuple(out.shape), out.stride(), tuple(h.shape), tuple(c.shape))
        torch.autograd.backward(out, torch.ones_like(out))
        print(all(one.grad.shape == one.shape for one in [x, *lstm.parameters()]))
    """)
    rows = 4 * 3 * 5
    state = 4 * 2 * 3 * 16
    reserve = rows * 16 * (2 * 5 + 1)
    workspace = _WEIGHTS + 4 * 3 * 16 * 2 * 11
    assert seen.printed == "(3, 5, 16) (16, 48, 1) (2, 3, 16) (2, 3, 16)\nTrue\n"
    sizes = [size for kind, size in seen.events_after_mark if kind == "alloc"]
    # States, the input step by step, output and new states, workspace and reserve.
    assert sizes[:8] == [state, state, rows * 8, rows * 16, state, state, workspace, reserve]
    # The given gradient; gradients of states that nobody gave; the input step by step, results, workspace.
    assert sizes[8:15] == [rows * 16, state, state, rows * 8, rows * 8, state, state]
    assert sizes[15:19] == [workspace, rows * 8, _WEIGHTS, workspace]
    assert seen.uncertain >= (reserve + workspace) // 2
    assert any("as cuDNN runs them" in one for one in seen.assumptions)
    assert not seen.unruled


def test_weights_move_together() -> None:
    seen = traced("""
        lstm = torch.nn.LSTM(8, 16, 2).cuda()
        print(len({one.untyped_storage()._cdata for one in lstm.parameters()}))
    """)
    assert seen.printed == "1\n"
    assert ("alloc", _WEIGHTS) in seen.events
    assert seen.allocated_at_the_end == _WEIGHTS
    assert [block["category"] for block in seen.blocks if block["size"] == _WEIGHTS] == ["parameters"]


def test_without_biases_the_buffer_has_room_for_them() -> None:
    seen = traced("""
        gru = torch.nn.GRU(8, 16, bias=False).cuda()
        gru(torch.randn(5, 3, 8, device="cuda"))[0].sum().backward()
        print(all(one.grad.shape == one.shape for one in gru.parameters()))
    """)
    assert seen.printed == "True\n"
    assert ("alloc", 4 * (48 * 8 + 48 * 16 + 2 * 48)) in seen.events


def test_inference_keeps_no_reserve() -> None:
    seen = traced("""
        rnn = torch.nn.RNN(8, 16, 2, bidirectional=True).cuda().eval()
        with torch.no_grad():
            mark()
            out, h = rnn(torch.randn(5, 3, 8, device="cuda"))
        print(tuple(out.shape), tuple(h.shape))
    """)
    assert seen.printed == "(5, 3, 32) (4, 3, 16)\n"
    sizes = [size for kind, size in seen.events_after_mark if kind == "alloc"]
    assert sizes[:4] == [4 * 5 * 3 * 8, 4 * 4 * 3 * 16, 4 * 5 * 3 * 32, 4 * 4 * 3 * 16]
    assert len(sizes) == 5  # and the workspace


def test_projections_packed_sequences_and_autocast() -> None:
    seen = traced("""
        from torch.nn.utils.rnn import pack_padded_sequence
        x = torch.randn(3, 5, 8, device="cuda")
        packed = pack_padded_sequence(x, torch.tensor([5, 3, 2]), batch_first=True)
        lstm = torch.nn.LSTM(8, 16, proj_size=4).cuda()
        out, (h, c) = lstm(packed)
        print(tuple(out.data.shape), tuple(h.shape), tuple(c.shape))
        out.data.sum().backward()
        with torch.autocast("cuda"):
            out, _ = lstm(x)
        print(out.dtype)
        out.sum().backward()
        print({one.grad.dtype for one in lstm.parameters()})
    """)
    assert seen.printed == "(10, 4) (1, 3, 4) (1, 3, 16)\ntorch.float16\n{torch.float32}\n"
    assert ("alloc", 2 * (64 * 8 + 64 * 4 + 2 * 64 + 4 * 16)) in seen.events  # all weights in float16


def test_what_cudnn_does_not_take_runs_cell_by_cell() -> None:
    seen = traced("""
        x = torch.randn(5, 3, 8, device="cuda")
        torch.nn.LSTM(8, 16).cuda().bfloat16()(x.bfloat16())
        torch.nn.GRUCell(8, 16).cuda()(x[0])
        torch.backends.cudnn.enabled = False
        torch.nn.GRU(8, 16).cuda()(x)[0].sum().backward()
    """)
    assert not any("cuDNN" in one for one in seen.assumptions)
    assert not seen.unruled


def test_dtypes_that_differ_are_refused_as_by_pytorch() -> None:
    seen = traced("""
        lstm = torch.nn.LSTM(8, 16).cuda().half()
        x, state = torch.randn(5, 3, 8, device="cuda"), torch.zeros(1, 3, 16, device="cuda")
        try:
            torch._VF.lstm(x, (state, state), lstm._flat_weights, True, 1, 0.0, True, False, False)
        except RuntimeError as error:
            print(error)
    """)
    assert seen.printed.startswith("Input and parameter tensors are not the same dtype, ")
