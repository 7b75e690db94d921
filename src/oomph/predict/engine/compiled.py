"""What torch.compile keeps of a section for backward, and which tensors exist at all.

Inductor fuses what works element by element, and reductions, into the kernels around: only what a matrix product or an
attention kernel reads or writes is ever in memory, beside what backward is to have. What that is, AOTAutograd decides
by a least cut between forward and backward; here the same cut is made on the program's storages.

Source: torch/_functorch/partitioners.py (min_cut_rematerialization_partition, solve_min_cut: ban_if_not_in_allowlist,
ban_if_materialized_backward, ban_if_used_far_apart, ban_if_reduction; get_node_weight: 1.1 per step from backward,
doubled where a tensor would not be in memory otherwise).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oomph.predict.engine.maxflow import ENDLESS, Network
from oomph.predict.programs.load import Program, Section

#: Kernels of their own: everything else is fused.
_KERNELS = """
aten.mm aten.addmm aten.bmm aten.baddbmm aten._scaled_dot_product_flash_attention aten.convolution
aten._scaled_dot_product_efficient_attention aten._scaled_dot_product_cudnn_attention flash_attn.forward
flash_attn.varlen_forward aten.index_put aten.sort aten.topk aten._grouped_mm
oomph.all_gather oomph.reduce_scatter oomph.all_reduce
"""
HEAVY = frozenset(_KERNELS.split())
_LOOKS = """
aten.view aten._unsafe_view aten.reshape aten.t aten.transpose aten.permute aten.expand aten.slice aten.select
aten.unsqueeze aten.squeeze aten.split aten.split_with_sizes aten.unbind aten.alias aten.detach aten.chunk
"""
_VIEWS = frozenset(_LOOKS.split())
_RANDOM = frozenset(("aten.native_dropout", "aten.bernoulli", "aten.rand_like"))
_SMALLER = 4
_BIAS = 1.1


def packet(name: str) -> str:
    """`aten.mul.Tensor` without the overload."""
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] == "aten" else name


@dataclass
class Op:
    """One operator by storages: `reads`, `writes` (its own new ones), where it stands."""

    at: int
    name: str
    reads: list[int]
    writes: list[int]

    @property
    def heavy(self) -> bool:
        """Whether it is a kernel of its own."""
        return self.name in HEAVY


@dataclass
class Partition:
    """saved: storages that backward is given. exists: storages that are in memory in forward. last: after which item
    each of them is freed. parts: of a storage that backward reads, the saved ones that it is made from."""

    saved: set[int] = field(default_factory=set)
    exists: set[int] = field(default_factory=set)
    last: dict[int, int] = field(default_factory=dict)
    parts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    #: `last` the other way round: what is freed after an item. What goes on is not.
    ends: dict[int, list[int]] = field(default_factory=dict)


def operators(program: Program, section: Section) -> list[Op]:
    """The section's operators that are no views, by storages."""
    found = []
    made: set[int] = set()
    same: dict[int, int] = {}
    for at, item in enumerate(section.items):
        if item[0] == "link":
            same[program.tensors[item[2]][0]] = program.tensors[item[1]][0]
        if item[0] != "op":
            continue
        reads = [program.tensors[each][0] for each in numbers(item[2])]
        reads = [same.get(each, each) for each in reads]
        writes = [program.tensors[each][0] for each in item[3] if each is not None]
        new = [
            each
            for each in dict.fromkeys(writes)
            if each not in made and each not in reads and _own(program, each)
        ]
        made.update(new)
        if packet(item[1]) in _VIEWS and not new:
            continue
        found.append(Op(at, packet(item[1]), list(dict.fromkeys(reads)), new))
    return found


def _own(program: Program, storage: int) -> bool:
    return bool(program.storages[storage][0] == "own")


def numbers(arguments: Sequence[Any]) -> list[int]:
    """The tensors among arguments."""
    found: list[int] = []
    for each in arguments:
        if isinstance(each, dict):
            if "t" in each:
                found.append(each["t"])
        elif isinstance(each, (list, tuple)):
            found += numbers(each)
    return found


def partition(
    program: Program,
    section: Section,
    sizes: dict[int, int],
    needed: dict[int, bool],
    outlets: set[int],
) -> Partition:
    """The cut. `sizes`: bytes by storage. `needed`: storages that backward reads, and whether a kernel of its own does.
    `outlets`: what goes on."""
    ops = operators(program, section)
    producers = {each: op for op in ops for each in op.writes}
    saved = _saved(ops, producers, sizes, needed)
    exists = set(saved) & set(producers)
    for op in ops:
        if op.heavy:
            exists.update(op.writes)
            exists.update(each for each in op.reads if each in producers)
    exists.update(each for each in outlets if each in producers)
    last = _last_uses(ops, exists, producers)
    parts = {each: _made_from(each, saved, producers) for each in needed}
    ends: dict[int, list[int]] = {}
    for storage, at in last.items():
        if storage in exists and storage not in outlets:
            ends.setdefault(at, []).append(storage)
    return Partition(saved, exists, last, parts, ends)


def read_again(ops: list[Op], needed: Iterable[int], kept: set[int]) -> set[int]:
    """Of the results that a checkpoint policy keeps, those that backward reads or makes what it reads from."""
    producers = {each: op for op in ops for each in op.writes}
    found: set[int] = set()
    stack, seen = list(needed), set()
    while stack:
        each = stack.pop()
        if each in seen:
            continue
        seen.add(each)
        if each in kept:
            found.add(each)
        elif each in producers:
            stack += producers[each].reads
    return found


def _last_uses(ops: list[Op], exists: set[int], producers: dict[int, Op]) -> dict[int, int]:
    """A fused kernel reads what its fused producers would have read: uses pass through what does not exist."""
    last: dict[int, int] = {}
    for op in ops:
        stack, seen = list(op.reads), set()
        while stack:
            each = stack.pop()
            if each in seen:
                continue
            seen.add(each)
            if each in exists:
                last[each] = op.at
            elif each in producers and (op.heavy or any(w in exists for w in op.writes)):
                stack += producers[each].reads
        for each in op.writes:
            last.setdefault(each, op.at)
    return last


def _made_from(storage: int, saved: set[int], producers: dict[int, Op]) -> tuple[int, ...]:
    found: dict[int, None] = {}
    stack, seen = [storage], set()
    while stack:
        each = stack.pop()
        if each in seen:
            continue
        seen.add(each)
        if each in saved or each not in producers:
            found[each] = None
        else:
            stack += producers[each].reads
    return tuple(found)


def _saved(
    ops: list[Op], producers: dict[int, Op], sizes: dict[int, int], needed: dict[int, bool]
) -> set[int]:
    users: dict[int, list[Op]] = {}
    for op in ops:
        for each in op.reads:
            users.setdefault(each, []).append(op)
    far = _far_apart(users)
    steps = _steps_from_backward(ops, users, needed)
    network = Network()
    for each in {*producers, *users, *needed}:
        made = producers.get(each)
        banned = (
            made is None or made.heavy or made.name in _RANDOM or made.at in far or bool(needed.get(each))
        )
        if banned or (made is not None and _reduces(made, each, sizes)):
            network.add("source", (each, "in"), ENDLESS)
        weight = sizes.get(each, 0) * _BIAS ** max(min(steps.get(each, 100), 100), 1)
        in_memory = made is None or made.heavy or any(user.heavy for user in users.get(each, ()))
        network.add((each, "in"), (each, "out"), max(weight, 1.0) * (1 if in_memory else 2))
        if each in needed:
            network.add((each, "out"), "sink", ENDLESS)
    for op in ops:
        for read in op.reads:
            for write in op.writes:
                network.add((read, "out"), (write, "in"), ENDLESS)
    side = network.reachable_after_cut("source", "sink")
    return {
        each for each in {*producers, *users, *needed} if (each, "in") in side and (each, "out") not in side
    }


def _reduces(op: Op, storage: int, sizes: dict[int, int]) -> bool:
    size = sizes.get(storage, 0)
    return size > 0 and sum(sizes.get(each, 0) for each in op.reads) >= _SMALLER * size


def _far_apart(users: dict[int, list[Op]]) -> set[int]:
    """Fused users of a tensor that come after a kernel of its own has used it, or what was made of it: what they make
    is not made twice."""
    found: set[int] = set()
    for its in users.values():
        first = _first_heavy(its, users)
        found.update(op.at for op in its if not op.heavy and op.at > first)
    return found


def _first_heavy(start: list[Op], users: dict[int, list[Op]]) -> int:
    """Where the first kernel of its own stands that follows from these operators, up to the last of them."""
    most = max(op.at for op in start)
    queue = [(op.at, op) for op in start]
    seen: set[int] = set()
    while queue:
        queue.sort(key=lambda each: -each[0])
        at, op = queue.pop()
        if op.heavy:
            return at
        if at in seen:
            continue
        seen.add(at)
        queue += [(user.at, user) for each in op.writes for user in users.get(each, ()) if user.at <= most]
    return most


def _steps_from_backward(
    ops: list[Op], users: dict[int, list[Op]], needed: dict[int, bool]
) -> dict[int, int]:
    steps = dict.fromkeys(needed, 1)
    for op in reversed(ops):
        for each in (*op.writes, *op.reads):
            if each in needed:
                continue
            later = [steps[w] for user in users.get(each, ()) for w in user.writes if w in steps]
            if later:
                steps[each] = min(later) + 1
    return steps
