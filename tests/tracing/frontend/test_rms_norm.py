"""RMSNorm before torch 2.9: operators one after the other."""

from __future__ import annotations

from tests.tracing.programs import traced

ROWS, WIDTH = 64, 512


def _made(version: tuple[int, int]) -> list[int]:
    seen = traced(
        f"""
        x = torch.randn({ROWS}, {WIDTH}, device="cuda", dtype=torch.bfloat16)
        norm = torch.nn.RMSNorm({WIDTH}, device="cuda", dtype=torch.bfloat16)
        mark()
        with torch.no_grad():
            norm(x)
        """,
        torch=version,
    )
    return [size for kind, size in seen.events_after_mark if kind == "alloc"]


def test_2_6_computes_in_fp32():
    wide, narrow = ROWS * WIDTH * 4, ROWS * WIDTH * 2
    # The input in fp32, its square, the mean and its root; the product, that in bf16, and times the weight.
    assert _made((2, 6)) == [wide, wide, ROWS * 4, ROWS * 4, wide, narrow, narrow]
