"""Sets of dimensions to record at: numbers that have nothing to do with each other.

Lengths are multiples of 32, as attention kernels round them up to (what they take for other lengths their rules say);
heads are multiples of 8 wide, or other kernels would run; layers are three.
"""

from __future__ import annotations

_ROWS = (
    # b, s, hidden / heads / 8, intermediate, kv_heads, groups, head_dim, vocab, positions, rotary
    (7, 96, 11, 712, 2, 5, 24, 1013, 4103, 8),
    (5, 160, 13, 1048, 3, 3, 40, 1499, 4211, 12),
    (3, 224, 17, 1336, 5, 2, 56, 2003, 4799, 20),
    (11, 64, 19, 1528, 2, 7, 72, 1747, 4507, 28),
    (9, 128, 23, 1832, 4, 3, 88, 2503, 5003, 36),
    (4, 192, 29, 2216, 3, 4, 104, 2999, 5501, 44),
)
#: What models of experts have beside: experts, top_k, expert_intermediate, shared_intermediate.
_EXPERTS = (
    (8, 2, 328, 456),
    (12, 3, 376, 488),
    (16, 5, 424, 536),
    (24, 7, 472, 584),
    (6, 4, 296, 616),
    (10, 2, 232, 664),
)
#: Classes of a classifier, and the width of an image's square patches and their number along a side.
_OTHERS = ((11, 8, 10), (13, 24, 6), (17, 40, 9), (19, 56, 5), (21, 16, 7), (23, 32, 8))
EXPERT_NAMES = ("experts", "top_k", "expert_intermediate", "shared_intermediate")
_KEYS = ("b", "s", "unit", "intermediate", "kv_heads", "groups", "head_dim", "vocab", "positions", "rotary")


def sets(heads: str, *, one: bool = False, hidden: bool = True, images: bool = False) -> list[dict[str, int]]:
    """Six sets. heads: grouped, equal or single (kv_heads is 1). `one`: a batch of one. `hidden`: the model's width is
    a dimension of its own; else it is heads * head_dim. `images`: sequences are an image's patches and one more."""
    result = []
    for row, experts, others in zip(_ROWS, _EXPERTS, _OTHERS, strict=True):
        each = dict(zip((*_KEYS, *EXPERT_NAMES), (*row, *experts), strict=True))
        each["classes"], each["patch"], each["side"] = others
        if images:
            each["image"], each["s"] = each["side"] * each["patch"], each["side"] ** 2 + 1
        if heads == "equal":
            each["kv_heads"], each["groups"] = each["kv_heads"] * each["groups"], 1
        elif heads == "single":
            each["groups"], each["kv_heads"] = each["kv_heads"] * each["groups"], 1
        each["heads"] = each["kv_heads"] * each["groups"]
        unit = each.pop("unit")
        each["hidden"] = each["heads"] * (8 * unit if hidden else each["head_dim"])
        each["layers"] = 3
        if one:
            each["b"] = 1
        result.append(each)
    return result
