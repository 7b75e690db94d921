"""Few input shapes, the largest first."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.units import format_bytes

_SETTINGS = {
    "transformers": "DataCollatorForLanguageModeling(tokenizer, mlm=False, pad_to_multiple_of=256)",
    "axolotl": "pad_to_sequence_len: true",
    "torchtune": "dataset.packed=True",
}
_PLAIN = (
    "LENGTHS = (512, 1024, 2048, 4096)   # pad every input to the next of these\npadded = next((n for n in "
    "LENGTHS if n >= length), LENGTHS[-1])"
)


class FixedShapes(Action):
    """Bucket or pad, warm up on the largest shape."""

    code = "fixed-shapes"
    title = "Use few input shapes and meet the largest one first"

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        ledger = case.ledger
        lost = ""
        if ledger.cached_bytes is not None and ledger.reserved_bytes:
            share = 100 * ledger.cached_bytes // ledger.reserved_bytes
            lost = (
                f"{format_bytes(ledger.cached_bytes)} ({share} % of what is reserved) are cached in pieces "
                "that do not fit. "
            )
        text = (
            f"{lost}Every new shape asks for segments of new sizes, and the old ones stay in the cache. "
            "Pad the inputs to a handful of lengths, and run one step with the largest before training, so "
            "that its segments exist and serve all smaller ones."
        )
        return self.make(
            text,
            _SETTINGS.get(setup_of(case).dialect, _PLAIN),
            outcomes=(
                (
                    "If the warm-up step itself fails",
                    "the largest shape does not fit: it is not fragmentation",
                ),
            ),
        )
