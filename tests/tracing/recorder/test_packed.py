"""Packed sequences: lengths are on the host, so sizes are exact."""

from __future__ import annotations

from tests.tracing.programs import traced


def test_packing_takes_the_pieces_and_the_whole() -> None:
    seen = traced("""
        from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
        x = torch.randn(3, 5, 64, device="cuda", requires_grad=True)
        mark()
        packed = pack_padded_sequence(x, torch.tensor([5, 3, 2]), batch_first=True)
        print(packed.batch_sizes.tolist(), packed.data.shape)
        print(pad_packed_sequence(packed, batch_first=True)[0].shape)
        packed.data.sum().backward()
        print(x.grad.shape)
    """)
    assert seen.printed == (
        "[3, 3, 2, 1, 1] torch.Size([10, 64])\ntorch.Size([3, 5, 64])\ntorch.Size([3, 5, 64])\n"
    )
    # Steps 0-1 of three sequences, step 2 of two, steps 3-4 of one (contiguous as it is), then all ten; 64 floats each.
    assert seen.events_after_mark[:3] == [("alloc", 6 * 256), ("alloc", 2 * 256), ("alloc", 10 * 256)]
