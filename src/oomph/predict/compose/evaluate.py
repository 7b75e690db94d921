"""What runs between steps of training: evaluation, generation, saving.

Sources: transformers/trainer.py (evaluation_loop), trainer_pt_utils.py (EvalLoopContainer: predictions are concatenated
on the device until `eval_accumulation_steps` moves them to the host: the old ones, the new ones and their concatenation
exist together); torch/distributed/fsdp (a full state dict gathers one unit after another). docs/terms/evaluation.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from oomph.job.model import Job
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose import pieces
from oomph.predict.compose.inference import NO_GRAD, Head, Pass, loose
from oomph.predict.compose.rollout import Generation
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.step import Step
from oomph.predict.compose.undropped import without_dropout


def after_training(step: Step) -> None:
    """Evaluation and generation, as far as the job has them, and saving."""
    job = step.setup.job
    if job.evaluation.batch:
        evaluate(step)
    if job.evaluation.generate:
        generate(step)
    save(step)


def evaluating(setup: Setup) -> Setup:
    """The same model with evaluation's batch."""
    job = setup.job
    evaluation = job.evaluation
    batch = msgspec.structs.replace(
        job.batch,
        micro=evaluation.batch or job.batch.micro,
        sequence=evaluation.sequence or job.batch.sequence,
    )
    evaluated = without_dropout(msgspec.structs.replace(job, batch=batch))
    return Setup(evaluated, setup.code, setup.gpu, setup.torch)


def evaluate(step: Step) -> None:
    """One forward without gradients beside the predictions that were collected before it."""
    sink, setup = step.sink, evaluating(step.setup)
    sink.phase(Phase.EVAL, "evaluation")
    collected = _collected(step.setup.job, setup)
    held = sink.alloc(collected, Category.ACTIVATIONS, "collected predictions") if collected else -1
    inputs = sink.alloc(pieces.front(setup, NO_GRAD).inputs, Category.ACTIVATIONS, "batch")
    # The loop's variable has the predictions of the batch before until there are new ones.
    size = _logits_bytes(setup) if collected else 0
    before = sink.alloc(size, Category.ACTIVATIONS, "predictions of the batch before")
    its = Pass(sink, setup, step.sharding, step.units, Phase.EVAL)
    left = its.run(_with_loss(its))
    for handle in (*left, inputs, before):
        sink.free(handle)
    _concatenate(step, collected, held)


def _with_loss(its: Pass) -> Head:
    """Output layer and loss."""
    sink = its.sink

    def head(hidden: int) -> Sequence[int]:
        piece = pieces.head(its.setup, replace(NO_GRAD, wide=its.wide))
        handed = [hidden] if piece.model is None else sink.play(piece.model, [hidden])
        handles = sink.play(piece.forward, handed)
        held = (*(handles[each] for each in piece.kept), *loose(piece, handles))
        for each in held:
            if each >= 0:
                sink.free(each)
        return [handles[piece.out]]

    return head


def _logits_bytes(setup: Setup) -> int:
    """Bytes of one batch's logits as the loop collects them: fp32 where the model computes in it, or its output is cast
    to it. Autocast alone leaves them in the lower precision, whatever the weights are kept in."""
    dims = setup.dims
    item = 4 if setup.code.outputs_to_fp32 or setup.precision == "fp32" else 2
    if setup.task.endswith("_classification") and setup.task != "token_classification":
        return dims["b"] * dims["classes"] * item
    return dims["b"] * dims["s"] * dims.get("vocab", 0) * item


def _collected(job: Job, setup: Setup) -> int:
    """Bytes of predictions that are on the device when the last batch is evaluated."""
    evaluation = job.evaluation
    if not evaluation.keep_logits or not evaluation.batch:
        return 0
    batches = -(-(evaluation.samples or evaluation.batch) // evaluation.batch)
    if evaluation.accumulation_steps:
        batches = min(batches, evaluation.accumulation_steps)
    return max(0, batches - 1) * _logits_bytes(setup)


def _concatenate(step: Step, collected: int, held: int) -> None:
    if held < 0:
        return
    sink = step.sink
    sink.phase(Phase.EVAL, "predictions are concatenated")
    new = _logits_bytes(evaluating(step.setup))
    last = sink.alloc(new, Category.ACTIVATIONS, "predictions of the last batch")
    both = sink.alloc(collected + new, Category.ACTIVATIONS, "concatenated predictions")
    for handle in (both, last, held):
        sink.free(handle)


def generate(step: Step) -> None:
    """Evaluation's samples, times beams: the pass over the prompt and the last new token."""
    setup = evaluating(step.setup)
    evaluation, dims = setup.job.evaluation, setup.dims
    beams = max(1, evaluation.beams)
    Generation(
        step.sink,
        setup,
        step.sharding,
        step.units,
        rows=dims["b"] * beams,
        prompt=dims["s"],
        new=evaluation.generate,
        chosen="beams" if beams > 1 else "greedy",
    ).run()


def save(step: Step) -> None:
    """Weights go to the host one by one. Where parameters are sharded, units are gathered one after another first."""
    job = step.setup.job
    step.sink.phase(Phase.SAVE, "the checkpoint is written")
    strategy = job.parallel.strategy
    if strategy.endswith(
        ("full_shard", "fsdp2_full", "hybrid_shard", "shard_grad_op", "no_reshard", "zero3")
    ):
        largest = max(
            (
                int(sum(each.numel * each.compute_bytes for each in unit.parameters))
                for unit in step.units.units
            ),
            default=0,
        )
        step.sink.free(
            step.sink.alloc(largest, Category.COMMUNICATION, "a unit's parameters, gathered to be saved")
        )
