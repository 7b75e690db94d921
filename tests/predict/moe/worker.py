"""`python -m tests.predict.moe.worker`: the grid's worker, with grouped products of any type, and with expert
parallelism.

PyTorch's fake kernel of `_grouped_mm` refuses what the CUDA one computes group by group (_grouped_mm_fallback in
aten/src/ATen/native/cuda/GroupedBlas.cpp): its result is as large as that of bf16's kernel, in its own type.
"""

from __future__ import annotations

from typing import Any

from tests.predict.grid import loop, worker
from tests.predict.moe import expert_loop


def main() -> None:
    """Until stdin ends."""
    import torch
    import torch._meta_registrations as registrations

    usual = registrations._meta_grouped_mm_common
    made = registrations._create_grouped_mm_output_tensor

    def of_any_type(mat_a: Any, mat_b: Any, **others: Any) -> Any:
        if mat_a.dtype in (torch.float32, torch.float16):
            return made(mat_a, mat_b, others["offs"], others["out_dtype"])
        return usual(mat_a, mat_b, **others)

    registrations._meta_grouped_mm_common = of_any_type
    usual_loop = loop.train

    def train(case: dict[str, Any]) -> None:
        (expert_loop.train if "expert" in case else usual_loop)(case)

    loop.train = train
    worker.main()


if __name__ == "__main__":
    main()
