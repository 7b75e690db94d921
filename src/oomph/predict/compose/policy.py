"""What selective checkpointing keeps, operator by operator."""

from __future__ import annotations

from collections.abc import Callable

from oomph.predict.engine.sequence_parallel import SCATTER
from oomph.predict.frameworks.code import Code

_KEPT_BY_POLICY = frozenset(
    ("aten._scaled_dot_product_flash_attention", "aten._scaled_dot_product_efficient_attention")
)


def selective_policy(code: Code) -> Callable[[str], bool]:
    """torchtitan's policy per operator: results of attention are kept, and of matrix products all but every n-th
    (torchtitan/parallelisms/parallelize_llama.py, _get_custom_policy)."""
    every, products = code.selective_every, 0

    def keeps(name: str) -> bool:
        nonlocal products
        if name == "aten.mm":
            products += 1
            return every < 2 or products % every != 0
        return (code.selective_attention and name in _KEPT_BY_POLICY) or name == SCATTER

    return keeps
