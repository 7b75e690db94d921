"""The words and rows that all renderers of plans share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oomph.memory.categories import CATEGORIES, Category
from oomph.phases import Phase
from oomph.predict.model import PhasePeak, Plan, RankPlan, Term
from oomph.report.plan.job_words import model_words, place_words, tidy, training_words
from oomph.units import GIB, format_bytes

Rows = list[tuple[str, ...]]

#: Characters of a place in a sentence, of a term's name, and of a place by itself.
_PLACE, _TERM, _SENTENCE = 80, 60, 120

#: Words of sentences that say why the numbers may not be those of the run.
_WEIGHTY = (
    "matter",
    "contradict",
    "not planned",
    "not modelled",
    "not recorded",
    "not known here",
    "unsupported",
)

_IN = {
    Phase.INIT: "at the start",
    Phase.LOAD: "during load",
    Phase.FORWARD: "in forward",
    Phase.BACKWARD: "in backward",
    Phase.OPTIMIZER: "in the optimizer step",
    Phase.EVAL: "in evaluation",
    Phase.GENERATE: "in generation",
    Phase.SAVE: "while saving",
    Phase.UNKNOWN: "in an unknown phase",
}


def phase_of(phase: Phase) -> str:
    """A phase in a sentence: "in backward"."""
    return _IN[phase]


def upper(peak: PhasePeak) -> int:
    """The most that a phase takes where it can have it: the upper end of what is reserved, where that was played, and
    of what is allocated otherwise."""
    return max(peak.high_bytes, peak.reserved_high_bytes or 0)


def most_of(rank: RankPlan) -> int:
    """The most that a rank takes in any phase where it can have it."""
    return max(upper(peak) for peak in rank.phases.values())


def needs(rank: RankPlan) -> tuple[int, int]:
    """The least and the most that a rank takes of what PyTorch can have."""
    return highest(rank).low_bytes, most_of(rank)


def room_of(plan: Plan, rank: RankPlan | None = None) -> int | None:
    """What PyTorch's allocator can have on a rank: the capacity, in which the CUDA context is counted already, less the
    most that NCCL and other libraries take (but all of a capacity that was given for PyTorch). None where no capacity
    is known."""
    rank = rank or (plan.worst if plan.ranks else None)
    if plan.capacity_bytes is None or rank is None or plan.job.hardware.capacity_bytes is not None:
        return plan.capacity_bytes
    beside = rank.outside.high_bytes - rank.outside.context_high_bytes
    return max(0, plan.capacity_bytes - max(0, beside))


def exit_code(plan: Plan) -> int:
    """0: it fits, or no capacity is known. 1: it does not fit, or may not. 2: it cannot be predicted."""
    if not plan.ranks:
        return 2
    return 0 if plan.fits or plan.capacity_bytes is None else 1


def headline(plan: Plan, shown: RankPlan | None = None) -> str:
    """One sentence: whether it fits; on which rank and in which phase the most is needed, or memory runs out."""
    if not plan.ranks:
        return refusal(plan)
    rank = shown or plan.worst
    room = room_of(plan, rank)
    whose = f" on {tidy(rank.ranks)}" if len(plan.ranks) > 1 else ""
    if plan.fits is not True and room is not None:
        return _too_much(plan, rank, whose, room)
    peak = highest(rank)
    at = f"{phase_of(peak.phase)}{whose}"
    if room is None:
        needed = at_most(peak, most_of(rank), at)
        return f"It needs {needed}; without --gpu or --capacity nothing says whether that fits"
    has = f"of {format_bytes(room)} that PyTorch can have"
    if most_of(rank) <= room:
        return f"It fits: it needs {at_most(peak, most_of(rank), at)}, {has}"
    return (
        f"It fits: {at_most(peak, peak.high_bytes, at)} {has} are allocated, and what it keeps beyond that it gives "
        "back before a request fails"
    )


def at_most(peak: PhasePeak, high: int, at: str) -> str:
    """A prediction and its upper end: "36.20 GiB in backward, at most 37.90 GiB"."""
    first, last = format_bytes(peak.allocated_bytes), format_bytes(high)
    return f"{first} {at}" if first == last else f"{first} {at}, at most {last}"


def highest(rank: RankPlan) -> PhasePeak:
    """The phase that allocates the most, its upper end counted. What is reserved does not decide: it stays from phase
    to phase, so a later one, which allocates less, may hold more of it."""
    return max(rank.phases.values(), key=lambda peak: (peak.high_bytes, peak.allocated_bytes))


def breaking(plan: Plan, rank: RankPlan) -> PhasePeak:
    """The phase in which memory runs out on this rank, or may: the one that the plan names, else the first that is over
    the capacity, else the highest."""
    if plan.fails_in is not None and plan.fails_in in rank.phases:
        return rank.phases[plan.fails_in]
    room = room_of(plan, rank)
    over = [peak for peak in rank.phases.values() if room is not None and peak.high_bytes > room]
    return over[0] if over else highest(rank)


def shown_peak(plan: Plan, rank: RankPlan) -> PhasePeak:
    """The phase whose contents are shown: where memory runs out, or the highest."""
    return highest(rank) if plan.fits or plan.capacity_bytes is None else breaking(plan, rank)


def _too_much(plan: Plan, rank: RankPlan, whose: str, room: int) -> str:
    """What does not fit, or may not: what is allocated decides, since cached memory is given back first."""
    peak = breaking(plan, rank)
    own = peak.where and peak.phase.value not in peak.where  # "the optimizer's step" says nothing more
    where = f" ({tidy(peak.where, _PLACE)})" if own else ""
    at = f"{phase_of(peak.phase)}{where}{whose}"
    has = f"of {format_bytes(room)} that PyTorch can have"
    if plan.fits is None:
        apart = "" if peak.high_bytes > room else ", and fragments of its cache are on top of that"
        return f"It may not fit: it needs {at_most(peak, peak.high_bytes, at)}, {has}{apart}"
    least = "" if peak.low_bytes == peak.allocated_bytes else f", at least {format_bytes(peak.low_bytes)}"
    short = f": {format_bytes(peak.low_bytes - room)} short at the least" if peak.low_bytes > room else ""
    top = max(rank.phases.values(), key=lambda each: each.allocated_bytes)
    more = "" if top is peak else f". The most is {format_bytes(top.allocated_bytes)} {phase_of(top.phase)}"
    return (
        f"It does not fit: memory runs out {at}, which needs {format_bytes(peak.allocated_bytes)}{least}, "
        f"{has}{short}{more}"
    )


def refusal(plan: Plan) -> str:
    """Why there is no number, and what to do instead."""
    asked = [tidy(each).removeprefix("unsupported: ").rstrip(".") for each in plan.unsupported] or ["the job"]
    told = f"unsupported: {'; '.join(asked)}"
    if any("oomph trace" in each for each in asked):
        return told
    return f"{told}. oomph plan does not model that; oomph trace runs the real code without a GPU"


def weightiest_first(sentences: Sequence[str]) -> list[str]:
    """What was not understood, contradicts itself or is left out before what was merely filled in: of a long list only
    the beginning is shown."""
    return sorted(sentences, key=lambda each: not any(word in each for word in _WEIGHTY))


def place(peak: PhasePeak) -> str:
    """Where in its phase the peak is, as a sentence; "" where that is not known."""
    text = tidy(peak.where, _SENTENCE)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def interval(low: int, high: int) -> str:
    """Both ends: "36.12 to 38.90 GiB", "900.00 MiB to 1.20 GiB"; one number where they print alike."""
    first, last = format_bytes(low), format_bytes(high)
    if first == last:
        return last
    number, _, unit = first.partition(" ")
    return f"{number} to {last}" if unit == last.partition(" ")[2] else f"{first} to {last}"


def short_interval(low: int, high: int) -> str:
    """As `interval`, in GiB with one decimal where both ends are that large: "36.1 to 38.9 GiB"."""
    if low < GIB:
        return interval(low, high)
    first, last = f"{low / GIB:.1f}", f"{high / GIB:.1f}"
    return f"{last} GiB" if first == last else f"{first} to {last} GiB"


def context(plan: Plan) -> str:
    """What was planned: the model, where, and how it trains."""
    count = f" ({plan.parameters:,} parameters{_trained(plan)})" if plan.parameters else ""
    return f"{model_words(plan.job)}{count} on {place_words(plan.job)}: {training_words(plan.job)}."


def _trained(plan: Plan) -> str:
    if plan.trainable == plan.parameters:
        return ""
    share = 100 * plan.trainable / plan.parameters
    return (
        f", of which {plan.trainable:,} train ({share:.2f} %)" if plan.trainable else ", of which none trains"
    )


def phase_rows(plan: Plan, rank: RankPlan) -> Rows:
    """Heads and one row for each phase."""
    played = any(peak.reserved_bytes is not None for peak in rank.phases.values())
    rows: Rows = [("phase", "allocated", "between", *(["reserved"] if played else []), "")]
    top = highest(rank)
    for peak in rank.phases.values():
        held = [_reserved(peak)] if played else []
        between = "" if peak.low_bytes == peak.high_bytes else short_interval(peak.low_bytes, peak.high_bytes)
        last = _verdict(plan, rank, (peak,)) or ("the most" if peak is top else "")
        rows.append((str(peak.phase), format_bytes(peak.allocated_bytes), between, *held, last))
    return rows


def _reserved(peak: PhasePeak) -> str:
    held = peak.reserved_bytes
    if held is None:
        return ""
    low, high = peak.reserved_low_bytes, peak.reserved_high_bytes
    return short_interval(held if low is None else low, held if high is None else high)


def category_rows(peak: PhasePeak) -> Rows:
    """Heads, one row for each category that has bytes, and all of them."""
    sums: dict[str, int] = {}
    for term in peak.terms:
        sums[str(term.category)] = sums.get(str(term.category), 0) + term.bytes
    if not sums:
        return []
    total = sum(sums.values())
    rows: Rows = [("category", "size", "share")]
    for category in map(str, CATEGORIES):
        if sums.get(category):
            rows.append((category, format_bytes(sums[category]), share(sums[category], total)))
    rows.append(("in all", format_bytes(total), ""))
    return rows


def term_rows(peak: PhasePeak, most: int | None = None, *, pages: bool = False) -> Rows:
    """Heads and the terms, the largest first: of many the first `most` and the sum of the rest. With `pages`, the name
    of the page that explains each."""
    terms = merged(peak.terms if most is None else _brief(peak.terms))
    pages = pages and any(term.formula for term in terms)
    if not terms:
        return []
    total = sum(term.bytes for term in terms)
    shown = terms if most is None or len(terms) <= most + 1 else terms[:most]
    rows: Rows = [("size", "share", "category", *(["page"] if pages else []), "what")]
    for term in shown:
        page = [term.formula] if pages else []
        name = tidy(_operator(term.name), _TERM)
        rows.append((format_bytes(term.bytes), share(term.bytes, total), str(term.category), *page, name))
    rest = terms[len(shown) :]
    if rest:
        size = sum(term.bytes for term in rest)
        blank = [""] if pages else []
        rows.append((format_bytes(size), share(size, total), "", *blank, f"{len(rest):,} smaller terms"))
    return rows


def _operator(name: str) -> str:
    """A term that is named by an operator of PyTorch, in words: "aten._to_copy" -> "results of to_copy"."""
    return f"results of {name.removeprefix('aten.').lstrip('_')}" if name.startswith("aten.") else name


def _brief(terms: Sequence[Term]) -> list[Term]:
    """The terms with gradients as one: each has its parameter's name."""
    return [
        replace(term, name="gradients") if term.category is Category.GRADIENTS else term for term in terms
    ]


def merged(terms: Sequence[Term]) -> list[Term]:
    """The terms with bytes, those of one name and category as one, the largest first."""
    sums: dict[tuple[str, str], Term] = {}
    for term in terms:
        key = (str(term.category), term.name)
        old = sums.get(key)
        size = term.bytes + (old.bytes if old else 0)
        sums[key] = Term(term.name, term.category, size, term.formula or (old.formula if old else ""))
    return sorted((term for term in sums.values() if term.bytes), key=lambda term: -term.bytes)


def share(part: int, whole: int) -> str:
    """A part in percent: "86 %", "< 1 %"."""
    percent = 100 * part / whole if whole else 0
    return "< 1 %" if 0 < percent < 1 else f"{percent:.0f} %"


def rank_rows(plan: Plan) -> Rows:
    """Heads and one row for each kind of rank."""
    rows: Rows = [("ranks", "allocated", "needs", "in", "")]
    for rank in plan.ranks:
        peak = highest(rank)
        rows.append(
            (
                tidy(rank.ranks),
                format_bytes(peak.allocated_bytes),
                interval(*needs(rank)),
                str(peak.phase),
                _verdict(plan, rank, tuple(rank.phases.values()))
                or ("" if plan.capacity_bytes is None else "fits"),
            )
        )
    return rows


def _verdict(plan: Plan, rank: RankPlan, peaks: Sequence[PhasePeak]) -> str:
    """Whether one of these peaks does not fit, or may not; "" where all fit, or nobody knows."""
    room = room_of(plan, rank)
    if room is None or plan.fits:
        return ""
    if any(peak.low_bytes > room for peak in peaks):
        return "does not fit"
    return "may not fit" if any(peak.high_bytes > room for peak in peaks) else ""


def end_words(rank: RankPlan) -> str:
    """What stays between steps; "" where that is not known."""
    if not rank.end_allocated_bytes:
        return ""
    return f"{format_bytes(rank.end_allocated_bytes)} stay allocated between steps."


def outside_words(plan: Plan, rank: RankPlan) -> list[str]:
    """What is needed beside PyTorch's allocator, and that the capacity counts without it."""
    outside = rank.outside
    if not outside.high_bytes:
        return []
    parts = [f"{tidy(name)} {interval(low, high)}" for name, low, high in outside.parts]
    listed = f": {'; '.join(parts)}" if parts else ""
    told = [f"{interval(outside.low_bytes, outside.high_bytes)} of the card on top of these numbers{listed}."]
    room = room_of(plan, rank)
    if room is not None and plan.job.hardware.capacity_bytes is None:
        told.append(f"The {format_bytes(room)} that PyTorch can have are what the most of that leaves.")
    return told


def host_words(plan: Plan) -> list[str]:
    """RAM of one node, and whether the machine has it."""
    host = plan.host
    if host is None or not (host.load_bytes or host.train_bytes):
        return []
    has = plan.job.hardware.host_bytes
    whose = plan.job.hardware.machine or "The machine"
    told = f"{format_bytes(host.load_bytes)} while loading"
    if host.train_bytes:
        told += f", {format_bytes(host.train_bytes)} while training"
    parts = "; ".join(f"{tidy(name)} {format_bytes(size)}" for name, size in host.parts if size)
    sentences = [f"{told}{f' ({parts})' if parts else ''}."]
    if has is not None:
        most = max(host.load_bytes, host.train_bytes)
        enough = "which is enough" if most <= has else f"{format_bytes(most - has)} too little"
        sentences.append(f"{tidy(whose)} has {format_bytes(has)}, {enough}.")
    return sentences


def allocator_words(rank: RankPlan) -> str:
    """What the play through the allocator said, beyond the numbers; "" where it adds nothing."""
    replay = rank.replay
    if replay is None or not replay.orders_failed:
        return ""
    phase = "" if replay.fails_in is None else f" {phase_of(replay.fails_in)}"
    orders = (
        "every order" if replay.surely_fails else f"{replay.orders_failed} of {replay.orders_played} orders"
    )
    return (
        "Played through PyTorch's allocator, with as much less memory as the prediction may be too low by, it runs out"
        f"{phase} in {orders} of addresses."
    )
