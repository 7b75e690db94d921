"""What is recorded: ways to run a framework's model, each with its losses, and the file that they become."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oomph.tracing.programs import watch
from oomph.tracing.programs.dimensions import sets
from oomph.tracing.programs.forward import Batch, Build, Forward, text_batch
from oomph.tracing.programs.record import NAMES, Made, record
from oomph.tracing.programs.same import same_for_one
from oomph.tracing.programs.store import Store

#: Ranks that have nothing to do with the other dimensions, one for each set.
_RANKS = (136, 152, 16, 184, 48, 232)

# Programs have no complex numbers. What rotary embeddings make of pairs of fp32 is written as fp64, of the same size.
watch.DTYPES["complex64"] = "fp64"


@dataclass(frozen=True)
class Loss:
    """A loss, named as `Code.loss` names it: `run` is forward and loss; `cut`, the module whose result the loss section
    begins with: the output layer, or the final norm where the output layer runs in chunks."""

    name: str
    run: Forward
    cut: str


@dataclass(frozen=True)
class Recording:
    """A way to run a model: one variant for each loss. `lora`: what the variant says of its adapters. `dropout`: the
    model's own is on."""

    build: Build
    layers: str
    losses: Sequence[Loss]
    heads: str = "grouped"
    precision: str = "bf16"
    attention: str = "sdpa"
    lora: Mapping[str, Any] | None = None
    batch: Batch = text_batch
    hidden: bool = True
    one: bool = False
    dropout: bool = False

    def made(self, loss: Loss) -> Made:
        """Records it."""
        found = sets(self.heads, one=self.one, hidden=self.hidden)
        if self.lora is not None:
            found = [{**each, "rank": rank} for each, rank in zip(found, _RANKS, strict=True)]
        return record(
            self.build,
            loss.run,
            layers=self.layers,
            head=loss.cut,
            dimension_sets=found,
            names=(*NAMES, "rank") if self.lora is not None else NAMES,
            precision=self.precision,
            batch=self.batch,
        )

    def choice(self, loss: Loss) -> dict[str, Any]:
        """What the variant is chosen by."""
        keys: dict[str, Any] = {
            "precision": self.precision,
            "attention": self.attention,
            "heads": self.heads,
            "one": self.one,
            "dropout": self.dropout,
            "loss": loss.name,
        }
        return keys if self.lora is None else {**keys, "lora": dict(self.lora)}


def fill(store: Store, recordings: Iterable[Recording], tell: Any) -> None:
    """Records all; a batch of one apart only where it does something else, which precision does not decide."""
    same: set[str] = set()
    for recording in recordings:
        for loss in recording.losses:
            choice = recording.choice(loss)
            tell(choice)
            any_batch = recording.made(loss)
            store.add(choice, any_batch)
            key = str({**choice, "precision": ""})
            if key in same:
                continue
            alone = replace(recording, one=True)
            one = alone.made(loss)
            if same_for_one(any_batch, one):
                same.add(key)
            else:
                store.add(alone.choice(loss), one)
