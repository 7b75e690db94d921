"""Several files about one job: whose word counts, and what contradicts what."""

from __future__ import annotations

from dataclasses import dataclass, field

from oomph.job.importers.imported import Imported, Value
from oomph.job.model import Model

#: The order in which files are heard; what is heard later is more specific.
_ORDER = {
    "config.json": 0,
    "command": 15,
    "Accelerate": 20,
    "DeepSpeed": 30,
    "PEFT": 40,
    "BitsAndBytesConfig": 40,
}
_TRAINER = 10
#: What Accelerate's file says of these is used only where the trainer says nothing: transformers' Trainer accumulates
#: by its own argument, and its bf16 and fp16 come before the launcher's (training_args.py, ACCELERATE_MIXED_PRECISION).
_TRAINER_FIRST = frozenset({"batch.accumulation", "given.mixed"})


@dataclass
class Facts:
    """What all files say: for every path the value that counts, and notes on how it was chosen."""

    values: dict[str, Value] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    model: Model | None = None
    kinds: tuple[str, ...] = ()

    def get(self, path: str) -> object:
        """The value that counts, None where nobody says one."""
        found = self.values.get(path)
        return None if found is None else found.value

    def said(self, path: str) -> bool:
        """Whether a file says it, as opposed to a framework's default."""
        return path in self.values and not self.values[path].default

    def note(self, text: str) -> None:
        """Something that a reader should know."""
        if text not in self.notes:
            self.notes.append(text)


def gather(imported: tuple[Imported, ...]) -> Facts:
    """The facts of all files. Later, more specific files win over earlier ones, except where the frameworks have it
    otherwise; what was written wins over defaults; contradictions are noted."""
    facts = Facts(kinds=tuple(each.kind for each in imported))
    speakers: dict[str, Imported] = {}
    for each in sorted(imported, key=lambda i: _ORDER.get(i.kind, _TRAINER)):
        facts.model = each.model or facts.model
        for path, value in each.values.items():
            held = facts.values.get(path)
            if held is not None and (value.default or not _wins(each, path, held)):
                if not value.default and not held.default:
                    _contradiction(facts, path, (speakers[path], held), (each, value), first=True)
                continue
            if held is not None and not held.default:
                _contradiction(facts, path, (speakers[path], held), (each, value), first=False)
            facts.values[path] = value
            speakers[path] = each
        for note in each.notes:
            facts.note(f"{each.name or each.kind}: {note}")
    return facts


def _wins(later: Imported, path: str, held: Value) -> bool:
    return held.default or not (later.kind == "Accelerate" and path in _TRAINER_FIRST)


def _contradiction(
    facts: Facts, path: str, one: tuple[Imported, Value], other: tuple[Imported, Value], *, first: bool
) -> None:
    (here, a), (there, b) = one, other
    if a.value == b.value or path.startswith(("given.needs.", "given.engine", "framework.")):
        return
    taken = a if first else b
    # Paths of `given.` are no fields of a job: what the files say names them.
    inner = path.startswith("given.")
    field = "" if inner else f"{path}: "
    if there.kind == "command" and not first:
        facts.note(f"{field}the command's {b.quote} replaces {a.quote} ({here.name or here.kind})")
        return
    facts.note(
        f"{field}{a.quote} ({here.name or here.kind}) and {b.quote} ({there.name or there.kind}) contradict each "
        f"other; taken is {taken.quote if inner else taken.value}"
    )
