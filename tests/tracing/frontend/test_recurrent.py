"""Recurrent layers run without cuDNN, which a CUDA build would call and which needs the GPU."""

from __future__ import annotations

from tests.tracing.programs import traced


def test_lstm_and_gru_run_and_give_their_gradients():
    seen = traced(
        """
        for kind in (torch.nn.LSTM, torch.nn.GRU):
            layer = kind(64, 128, 2, dropout=0.1).cuda()
            layer(torch.randn(10, 4, 64, device="cuda"))[0].sum().backward()
            print(all(one.grad.shape == one.shape for one in layer.parameters()))
        print(torch.backends.cudnn.enabled)
        """
    )
    assert seen.printed == "True\nTrue\nTrue\n"
