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
#: Groups of experts that a router chooses from, the experts of one, and how many are chosen.
_ROUTERS = ((4, 2, 3), (3, 4, 1), (8, 2, 5), (6, 4, 3), (2, 3, 2), (5, 2, 4))
#: How many experts as wide as the others make up the one for all tokens, where it is a whole number of them.
_SHARED = (3, 2, 1, 4, 2, 5)
ROUTER_NAMES = ("router_groups", "router_width", "router_kept")
#: Latent attention: ranks of queries and of keys and values, and the widths of a head that does not turn with the
#: position, that does, and of its values.
_LATENT = (
    (136, 88, 40, 8, 24),
    (152, 104, 56, 16, 48),
    (184, 120, 24, 32, 40),
    (232, 168, 88, 24, 72),
    (248, 176, 104, 40, 120),
    (296, 208, 72, 48, 112),
)
LATENT_NAMES = ("q_rank", "kv_rank", "nope_dim", "rope_dim", "v_dim")
_KEYS = ("b", "s", "unit", "intermediate", "kv_heads", "groups", "head_dim", "vocab", "positions", "rotary")


def sets(
    heads: str, *, one: bool = False, hidden: bool = True, images: bool = False, latent: bool = False
) -> list[dict[str, int]]:
    """Six sets. heads: grouped, equal or single (kv_heads is 1). `one`: a batch of one. `hidden`: the model's width is
    a dimension of its own; else it is heads * head_dim. `images`: sequences are an image's patches and one more.
    `latent`: keys and values are made of latents; a head is as wide as its two parts."""
    result = []
    for row, experts, others, routers, shared, latents in zip(
        _ROWS, _EXPERTS, _OTHERS, _ROUTERS, _SHARED, _LATENT, strict=True
    ):
        each = dict(zip((*_KEYS, *EXPERT_NAMES), (*row, *experts), strict=True))
        if latent:
            each |= dict(zip((*ROUTER_NAMES, *LATENT_NAMES), (*routers, *latents), strict=True))
            each["head_dim"] = each["nope_dim"] + each["rope_dim"]
            each["shared_intermediate"] = shared * each["expert_intermediate"]
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
