"""Tensors on the GPU made of, or indexed with, Python data."""

from __future__ import annotations

from tests.tracing.programs import traced


def test_lists_and_arrays_index() -> None:
    seen = traced("""
        import numpy
        x = torch.zeros(8, 6, device="cuda")
        mark()
        print(x[[0, 2]].shape, x[:, [-1]].shape, x[numpy.array([1, 2, 3])].shape, x[[True] * 8].shape)
        x[[0, 1], [2, 3]] = 1.0
        x[x < x[:, [-1]]] = -float("inf")
        print(x[0:2, 1].shape, x[[]].shape)
    """)
    assert seen.printed == (
        "torch.Size([2, 6]) torch.Size([8, 1]) torch.Size([3, 6]) torch.Size([8, 6])\n"
        "torch.Size([2]) torch.Size([0, 6])\n"
    )
    # Two int64 on the GPU, then the two rows of six floats.
    assert [one for one in seen.events_after_mark if one[0] == "alloc"][:2] == [("alloc", 16), ("alloc", 48)]


def test_new_tensors_of_numbers_and_of_tensors() -> None:
    seen = traced("""
        x = torch.ones(3, device="cuda")
        y = x.new_tensor([1, 2])
        print(y.device, y.dtype)
        z = torch.tensor([x.sum(), x.mean(), 4])
        print(z.device, z.tolist())
        w = torch.tensor([[x[0].item(), 2.0], [x.max(), 3.0]], device="cuda")
        print(w.shape, w.device)
    """)
    assert seen.printed == ("cuda:0 torch.float32\ncpu [3.0, 1.0, 4.0]\ntorch.Size([2, 2]) cuda:0\n")


def test_threads_take_turns() -> None:
    """Fake kernels keep state of their own; two threads at once would meet in it."""
    seen = traced("""
        import sys, threading
        sys.setswitchinterval(1e-6)
        bad = []

        def work():
            try:
                for step in range(60):
                    x = torch.randn(8, 8 + step % 7, device="cuda")
                    (x @ x.t()).relu().sum()
            except BaseException as error:
                bad.append(repr(error))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        print(bad)
    """)
    assert seen.printed == "[]\n"
