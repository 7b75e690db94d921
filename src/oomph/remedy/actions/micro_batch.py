"""A smaller micro-batch at the same effective batch."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.phases import Phase
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import Setup, setup_of
from oomph.remedy.words import allocated_words, must_free

_TRAINING = (Phase.FORWARD, Phase.BACKWARD, Phase.UNKNOWN)
#: Dialect -> how it writes (micro-batch, accumulation); torchtitan, litgpt and Megatron derive the accumulation.
_SETTINGS = {
    "transformers": "per_device_train_batch_size={batch},\ngradient_accumulation_steps={steps},",
    "axolotl": "micro_batch_size: {batch}\ngradient_accumulation_steps: {steps}",
    "torchtune": "batch_size={batch} gradient_accumulation_steps={steps}",
    "torchtitan": "--training.local_batch_size {batch}   # leave global_batch_size as it is",
    "megatron": "--micro-batch-size {batch}   # leave --global-batch-size as it is",
    "lightning": "DataLoader(..., batch_size={batch})\nTrainer(..., accumulate_grad_batches={steps})",
    "deepspeed": '"train_micro_batch_size_per_gpu": {batch},\n"gradient_accumulation_steps": {steps},',
    "diffusers": "--train_batch_size={batch} --gradient_accumulation_steps={steps}",
    "accelerate": "DataLoader(..., batch_size={batch})\nAccelerator(..., gradient_accumulation_steps={steps})",
    "ultralytics": "batch={batch}   # it accumulates to a nominal batch of 64 (nbs) by itself",
    "mmengine": (
        "train_dataloader = dict(batch_size={batch}, ...)\noptim_wrapper = "
        "dict(accumulative_counts={steps}, ...)"
    ),
}
_PLAIN = (
    "batch_size = {batch}   # of the DataLoader\naccumulation = {steps}   # loss / accumulation; step() "
    "after that many batches"
)


class MicroBatch(Action):
    """Half the micro-batch, more accumulation."""

    code = "micro-batch"
    title = "Halve the micro-batch and double gradient accumulation"

    def applies(self, case: Case) -> bool:
        """In training steps, unless the micro-batch is 1 already."""
        return case.phase in _TRAINING and setup_of(case).batch != 1

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        setup = setup_of(case)
        why = (
            f"Activations grow in proportion to it, so it halves what they take {allocated_words(case)}; "
            "weights and optimizer states stay."
        )
        if setup.batch is None:
            text = (
                f"{must_free(case)} {why} Double the accumulation, so that the effective batch stays. "
                "Leave the sequence length as it is."
            )
            paste = _settings(setup, "<half of now>", "<twice of now>")
            return self.make(text, paste, outcomes=_outcomes(None, setup))
        batch = smaller(setup.batch)
        factor = setup.batch // batch
        steps = setup.accumulation * factor if setup.accumulation else None
        if steps is not None:
            kept = f"{setup.batch} x {setup.accumulation} = {batch} x {steps} samples per optimizer step"
            change = f"Micro-batch {setup.batch} -> {batch}, accumulation {setup.accumulation} -> {steps}"
        else:
            kept = f"{factor} times the accumulation that is set now (1 -> {factor} where none is)"
            change = f"Micro-batch {setup.batch} -> {batch}, accumulation times {factor}"
        text = (
            f"{must_free(case)} {why} The effective batch stays: {kept}. Leave the sequence length as it is."
        )
        paste = _settings(setup, str(batch), str(steps) if steps is not None else f"<{factor} x now>")
        return self.make(text, paste, title=change, outcomes=_outcomes(batch, setup))


def smaller(batch: int) -> int:
    """The largest divisor of `batch` that is at most half of it (1 for primes), so that the product can stay."""
    for divisor in range(2, int(batch**0.5) + 1):
        if batch % divisor == 0:
            return batch // divisor
    return 1


def _settings(setup: Setup, batch: str, steps: str) -> str:
    return _SETTINGS.get(setup.dialect, _PLAIN).format(batch=batch, steps=steps)


def _outcomes(batch: int | None, setup: Setup) -> tuple[tuple[str, str], ...]:
    following = "turn on activation checkpointing" if not setup.checkpointing else "shorten the sequences"
    if batch == 1:
        return (("If it still fails at 1", f"{following}; the micro-batch has nothing left to give"),)
    return (
        ("If it fails later or in another place", "halve again, down to 1, with the sequence length fixed"),
        ("If it still fails at 1", f"{following}; only then touch the sequence length"),
    )
