"""Operators that only a CUDA build has kernels for are one operator in a CPU build's trace too, as on a GPU."""

from __future__ import annotations

from tests.tracing.programs import traced

ROWS, WIDTH = 64, 512
WHOLE = ROWS * WIDTH * 4


def test_the_backward_of_silu_makes_its_result_and_nothing_else():
    seen = traced(
        f"""
        x = torch.randn({ROWS}, {WIDTH}, device="cuda", requires_grad=True)
        y = torch.nn.functional.silu(x).sum()
        z = torch.nn.functional.mish(x).sum()
        mark()
        (y + z).backward()
        """
    )
    # One gradient of each; what they are made from are sums of 4 bytes.
    assert [size for kind, size in seen.events_after_mark if kind == "alloc" and size > 4] == [WHOLE, WHOLE]


def test_rms_norm_keeps_a_number_for_each_row():
    seen = traced(
        f"""
        import torch.nn.functional as F
        if not hasattr(torch.ops.aten, "_fused_rms_norm"):
            print("composite")
        x = torch.randn({ROWS}, {WIDTH}, device="cuda", requires_grad=True)
        mark()
        y = torch.nn.RMSNorm({WIDTH}, elementwise_affine=False)(x)
        """
    )
    made = seen.events_after_mark
    if seen.printed != "composite\n":
        # layer_norm_kernel.cu, _fused_rms_norm_cuda: the result and rstd.
        assert made[:2] == [("alloc", WHOLE), ("alloc", ROWS * 4)]


def test_what_is_on_the_device_is_not_copied_there():
    seen = traced(
        """
        x = torch.ones(5, device="cuda")
        print(x.cuda() is x, x.to("cuda") is x, x.to("cuda:0") is x)
        """
    )
    assert seen.printed == "True True True\n"
