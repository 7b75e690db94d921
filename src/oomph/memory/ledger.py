"""Where every byte of one device is at one moment.

    capacity = free + other_processes + process
    process  = outside + reserved
    reserved = allocated + cached

`outside` is this process's memory that PyTorch's allocator does not see (CUDA context, NCCL, other libraries). A log
often allows only the sum `not_torch = capacity - free - reserved`: outside and other processes together.

Pure arithmetic: values come in as printed (`Amount`: bytes and rounding), the rest is derived by the identities, and
what contradicts them is listed in `problems`, never raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oomph.units import Amount, format_bytes

#: Names under which `Ledger.build` takes printed values.
PRINTED = (
    "capacity_bytes",
    "free_bytes",
    "other_processes_bytes",
    "process_bytes",
    "outside_bytes",
    "reserved_bytes",
    "allocated_bytes",
    "cached_bytes",
    "private_pool_bytes",
    "limit_bytes",
    "request_bytes",
    "segment_bytes",
)
#: The origin of numbers that oomph traced: those of a simulated card, whose capacity is what PyTorch can have of it.
SIMULATED = "simulated"


@dataclass(frozen=True)
class Problem:
    """Printed numbers that cannot all be true. `code` is stable, `text` says which numbers and why."""

    code: str
    text: str


@dataclass(frozen=True)
class Ledger:
    """The bytes of one device. Every field is bytes or None ("not printed and not derivable").

    `origins` says for each known field how it is known: "printed", "simulated", or the identity that gave
    it ("= allocated + cached"). `slack_bytes` is how far each field may be off through the rounding of what was
    printed.
    """

    capacity_bytes: int | None = None
    free_bytes: int | None = None
    other_processes_bytes: int | None = None
    process_bytes: int | None = None
    outside_bytes: int | None = None
    reserved_bytes: int | None = None
    allocated_bytes: int | None = None
    cached_bytes: int | None = None
    private_pool_bytes: int | None = None
    limit_bytes: int | None = None
    request_bytes: int | None = None
    segment_bytes: int | None = None
    not_torch_bytes: int | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    slack_bytes: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @classmethod
    def build(cls, printed: Mapping[str, Amount | None]) -> Ledger:
        """Takes the printed values (names in `PRINTED`), derives what the identities give, lists contradictions.

        Raises KeyError for a name that is not in `PRINTED` (a programming error, not bad input).
        """
        unknown = set(printed) - set(PRINTED)
        if unknown:
            raise KeyError(f"not a ledger field: {sorted(unknown)}")
        known = {name: size for name, size in printed.items() if size is not None}
        work = _Derivation(known)
        work.run()
        values = {name: size.bytes for name, size in work.known.items()}
        return cls(
            **values,
            origins=work.origins,
            slack_bytes={name: size.slack_bytes for name, size in work.known.items()},
            problems=tuple(work.problems),
        )

    @property
    def short_by_bytes(self) -> int | None:
        """How many bytes the driver lacked for the segment: segment - free, never below 0.

        None when either is unknown. 0 means that free memory alone would have been enough (a cap, a limit, or free
        read after something was released).
        """
        if self.segment_bytes is None or self.free_bytes is None:
            return None
        return max(0, self.segment_bytes - self.free_bytes)

    @property
    def unexplained_bytes(self) -> int | None:
        """`not_torch` less the parts of it that are named (outside, other processes); None when not derivable."""
        if self.not_torch_bytes is None:
            return None
        named = (self.outside_bytes or 0) + (self.other_processes_bytes or 0)
        return max(0, self.not_torch_bytes - named)

    @property
    def cached_ratio(self) -> float | None:
        """cached / reserved, the share of PyTorch's memory that is not handed out; None when unknown or empty."""
        if self.cached_bytes is None or not self.reserved_bytes:
            return None
        return self.cached_bytes / self.reserved_bytes


class _Derivation:
    """Applies the identities until nothing new follows; a sum's slack is the sum of the slacks."""

    #: (whole, parts): whole = sum of parts; any one unknown follows from the others.
    IDENTITIES = (
        ("reserved_bytes", ("allocated_bytes", "cached_bytes")),
        ("process_bytes", ("outside_bytes", "reserved_bytes")),
        ("capacity_bytes", ("free_bytes", "other_processes_bytes", "process_bytes")),
        ("capacity_bytes", ("free_bytes", "not_torch_bytes", "reserved_bytes")),
    )

    def __init__(self, printed: Mapping[str, Amount]) -> None:
        self.known: dict[str, Amount] = dict(printed)
        self.origins: dict[str, str] = dict.fromkeys(printed, "printed")
        self.problems: list[Problem] = []

    def run(self) -> None:
        progress = True
        while progress:
            progress = any([self._apply(whole, parts) for whole, parts in self.IDENTITIES])
        self._check_order()

    def _apply(self, whole: str, parts: tuple[str, ...]) -> bool:
        names = (whole, *parts)
        missing = [name for name in names if name not in self.known]
        if len(missing) != 1:
            return False
        target = missing[0]
        if target == whole:
            total = sum(self.known[part].bytes for part in parts)
            label = " + ".join(_short(part) for part in parts)
        else:
            others = [part for part in parts if part != target]
            total = self.known[whole].bytes - sum(self.known[part].bytes for part in others)
            label = " - ".join(_short(name) for name in (whole, *others))
        slack = sum(self.known[name].slack_bytes for name in names if name != target)
        if total < -slack:
            self._contradiction(whole, parts, target, -total)
            return False
        self.known[target] = Amount(max(0, total), slack)
        self.origins[target] = f"= {label}"
        return True

    def _contradiction(self, whole: str, parts: tuple[str, ...], target: str, excess: int) -> None:
        others = [part for part in parts if part != target]
        code = f"{_short(whole)}-below-{'-'.join(_short(part) for part in others)}"
        if any(problem.code == code for problem in self.problems):
            return
        text = (
            f"{' + '.join(_short(part) for part in others)} is {format_bytes(excess)} more than "
            f"{_short(whole)} ({format_bytes(self.known[whole].bytes)}), which cannot be"
        )
        self.problems.append(Problem(code, text))

    def _check_order(self) -> None:
        for small, large in (
            ("allocated_bytes", "reserved_bytes"),
            ("private_pool_bytes", "allocated_bytes"),
            ("free_bytes", "capacity_bytes"),
            ("allocated_bytes", "capacity_bytes"),
        ):
            a, b = self.known.get(small), self.known.get(large)
            if a is None or b is None or a.low_bytes <= b.high_bytes:
                continue
            code = f"{_short(large)}-below-{_short(small)}"
            if any(problem.code == code for problem in self.problems):
                continue
            self.problems.append(
                Problem(
                    code,
                    f"{_short(small)} ({format_bytes(a.bytes)}) is more than {_short(large)} "
                    f"({format_bytes(b.bytes)})",
                )
            )


def _short(name: str) -> str:
    return name.removesuffix("_bytes")
