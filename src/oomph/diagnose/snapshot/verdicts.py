"""From the numbers of a failed request to the reason.

Full means: what was in use and the request together are more than PyTorch could have had, however it lay. Anything
else can be the reason only where that is not so. What is compared are sums of exact bytes, and each answer says which
sum decided.
"""

from __future__ import annotations

from collections.abc import Iterator

from oomph.diagnose.model import Certainty, RuledOut
from oomph.diagnose.snapshot.model import Verdict
from oomph.diagnose.snapshot.scene import FreeList, Scene
from oomph.memory.timeline import DEFAULT_POOL
from oomph.units import MIB, format_bytes

Answer = tuple[Verdict, Certainty, str]

#: The driver needs memory of its own for what it maps (page tables), and other processes come and go: free memory that
#: exceeds the need by less than this proves no cap, and a fall of what was available by less proves no growth.
MARGIN_BYTES = 32 * MIB
#: Where the pieces are a smaller part of the request than this, joining them is not what anyone should try first.
_MATTERS = 0.1


def decide(scene: Scene) -> Answer:
    """The verdict, how sure it is, and why, in one or two sentences."""
    if scene.hole >= scene.request:
        return _large_enough(scene)
    if scene.free is None:
        return _without_free(scene)
    if scene.free >= scene.driver:
        return _capped(scene, scene.free)
    fallen = scene.outside_growth
    if fallen >= MARGIN_BYTES and scene.free + fallen >= scene.driver:
        return (
            Verdict.OUTSIDE_GREW,
            Certainty.CERTAIN,
            (
                f"earlier in this trace PyTorch had at least {format_bytes(fallen)} more of this device than the "
                f"{format_bytes(scene.reserved + scene.free)} that it could have when the request failed. "
                "Something outside of its allocator took them (another process, NCCL, CUDA itself); with them the "
                "request would have been served."
            ),
        )
    if scene.short:
        return _full(scene, scene.free)
    missing = scene.request - scene.own - scene.free
    return _in_pieces(scene, scene.free) if missing <= 0 else _elsewhere(scene, missing)


def ruled_out(scene: Scene, verdict: Verdict) -> Iterator[RuledOut]:
    """What was considered and set aside, each with its number."""
    request, cached = format_bytes(scene.request), format_bytes(scene.own)
    if verdict is Verdict.UNKNOWN or scene.free is None:
        return
    free = format_bytes(scene.free)
    if verdict is not Verdict.CAPPED:
        yield RuledOut(
            "cap", f"{scene.giver} had {free} free, less than the {format_bytes(scene.driver)} it had to give"
        )
    if verdict is Verdict.FULL:
        yield RuledOut(
            "fragmentation",
            f"all {format_bytes(scene.cached)} cached and {free} free, in one piece, could not hold {request}",
        )
    elif verdict is Verdict.OTHER_POOL:
        yield RuledOut(
            "fragmentation", f"the free pieces of its own pool, {cached}, could not hold {request}"
        )
    elif not scene.short:
        yield RuledOut(
            "full",
            f"{format_bytes(scene.allocated + scene.waiting)} in use and {request} asked for are within the "
            f"{format_bytes(scene.reserved + scene.free)} that PyTorch could have had",
        )
    if verdict is not Verdict.OUTSIDE_GREW and not scene.outside_growth:
        yield RuledOut("growth outside", "PyTorch never had more of this device earlier in the trace")


def list_name(one: FreeList) -> str:
    """A free list in words: "the large pool", "the small pool of stream 7", "a private pool (0, 1)"."""
    stream, pool, small = one
    name = f"the {'small' if small else 'large'} pool"
    if pool != DEFAULT_POOL:
        name += f" of private pool {pool}"
    return name + (f" of stream {stream}" if stream else "")


def _large_enough(scene: Scene) -> Answer:
    limit = scene.split_limit
    hole, request = format_bytes(scene.hole), format_bytes(scene.request)
    if limit is not None and scene.request < limit <= scene.hole:
        return (
            Verdict.FRAGMENTED,
            Certainty.LIKELY,
            (
                f"a free block of {hole} was there, but max_split_size_mb ({format_bytes(limit)}) keeps blocks of "
                f"that size whole for larger requests than the {request} asked for."
            ),
        )
    if limit is not None and scene.request >= limit:
        return (
            Verdict.FRAGMENTED,
            Certainty.LIKELY,
            (
                f"a free block of {hole} was there, but with max_split_size_mb ({format_bytes(limit)}) a request "
                f"of {request} takes only a block of nearly its own size."
            ),
        )
    says = (
        f"its pool shows a free block of {hole}, enough for the {request} asked for, so this snapshot does not "
        "show why it failed"
    )
    if scene.private_pools:
        says += "; inside a CUDA graph's capture it would be the graph's private pool, which this format does not name"
    return Verdict.UNKNOWN, Certainty.POSSIBLE, says + "."


def _without_free(scene: Scene) -> Answer:
    if scene.own >= scene.request:
        return (
            Verdict.FRAGMENTED,
            Certainty.LIKELY,
            (
                f"{format_bytes(scene.own)} of its pool were free in pieces of at most {format_bytes(scene.hole)}; "
                "what the driver had left was not recorded."
            ),
        )
    return (
        Verdict.UNKNOWN,
        Certainty.POSSIBLE,
        "what the driver had left was not recorded, so a full device and a limit look the same.",
    )


def _capped(scene: Scene, free: int) -> Answer:
    says = (
        f"{scene.giver} had {format_bytes(free)} free, enough for the {format_bytes(scene.driver)} it had to "
        f"give, and PyTorch stopped at {format_bytes(scene.reserved)} reserved"
    )
    if free >= scene.driver + MARGIN_BYTES:
        return (
            Verdict.CAPPED,
            Certainty.LIKELY,
            says
            + ": a limit stood in the way (set_per_process_memory_fraction, or memory that was freed only after "
            "the request had failed).",
        )
    return (
        Verdict.CAPPED,
        Certainty.POSSIBLE,
        says + ". It is so close that the driver's own needs may have been what was missing.",
    )


def _full(scene: Scene, free: int) -> Answer:
    in_use, available = scene.allocated + scene.waiting, scene.reserved + free
    says = (
        f"{format_bytes(in_use)} were in use and {format_bytes(scene.request)} asked for, of "
        f"{format_bytes(available)} that PyTorch could have had: {format_bytes(scene.short or 0)} too little, "
        "however it had lain"
    )
    if scene.waiting and scene.allocated + scene.request <= available:
        return (
            Verdict.OTHER_POOL,
            Certainty.LIKELY,
            (
                f"{format_bytes(scene.waiting)} had been freed but wait for other streams that used them "
                "(record_stream); with them the request would have had room."
            ),
        )
    return Verdict.FULL, Certainty.CERTAIN, says + "."


def _in_pieces(scene: Scene, free: int) -> Answer:
    request, hole = format_bytes(scene.request), format_bytes(scene.hole)
    if scene.own >= scene.request:
        enough = "more than" if format_bytes(scene.own) != request else "as much as"
        return (
            Verdict.FRAGMENTED,
            Certainty.CERTAIN,
            (
                f"{format_bytes(scene.own)} of its pool were free, {enough} the {request} asked for, but in "
                f"pieces of at most {hole}; {scene.giver} had {format_bytes(free)}."
            ),
        )
    weak = scene.own < _MATTERS * scene.request
    return (
        Verdict.FRAGMENTED,
        Certainty.POSSIBLE if weak else Certainty.LIKELY,
        f"{format_bytes(scene.own)} of its pool were free in pieces of at most {hole}, and {scene.giver} had "
        f"{format_bytes(free)}: together enough for the {request} asked for, but neither was alone"
        + (". The pieces are a small part of it: the device was nearly full." if weak else "."),
    )


def _elsewhere(scene: Scene, missing: int) -> Answer:
    held = [one for one in scene.others if one[2] > 0]
    listed = "; ".join(
        f"{format_bytes(total)} in {list_name(key)} (largest piece {format_bytes(hole)})"
        for key, hole, total in held[:3]
    )
    whole = next((key for key, hole, _ in held if hole >= scene.request), None)
    # A few pieces here and there do not make a nearly full device anything else.
    enough = held and held[0][2] >= missing and held[0][2] >= _MATTERS * scene.request
    says = (
        f"{format_bytes(sum(one[2] for one in held))} were free where this request could not use them: "
        f"{listed}. Its own pool ({list_name(scene.list)}) had {format_bytes(scene.own)} and {scene.giver} "
        f"{format_bytes(scene.free or 0)}, for {format_bytes(scene.request)} asked for."
    )
    sure = Certainty.CERTAIN if whole is not None else Certainty.LIKELY if enough else Certainty.POSSIBLE
    return Verdict.OTHER_POOL, sure, says
