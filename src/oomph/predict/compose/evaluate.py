"""What runs between steps of training: evaluation, generation, saving.

Sources: transformers/trainer.py (evaluation_loop), trainer_pt_utils.py (EvalLoopContainer: predictions are concatenated
on the device until `eval_accumulation_steps` moves them to the host: the old ones, the new ones and their concatenation
exist together); cache_utils.py (DynamicLayer.update: keys and values grow by torch.cat, one layer's twice for a
moment); torch/distributed/fsdp (a full state dict gathers one unit after another). docs/terms/evaluation.md.
"""

from __future__ import annotations

import msgspec

from oomph.job.model import ITEM_BYTES, Dimension, Job, Method, Model
from oomph.memory.categories import Category
from oomph.phases import Phase
from oomph.predict.compose import pieces
from oomph.predict.compose.pieces import Mode
from oomph.predict.compose.setup import Setup
from oomph.predict.compose.step import Step

_NO_GRAD = Mode(grad=False, requires=False)


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
    evaluated = msgspec.structs.replace(
        job, batch=batch, model=_without_dropout(job.model), method=_adapters_without_dropout(job.method)
    )
    return Setup(evaluated, setup.code, setup.gpu, setup.torch)


def _without_dropout(model: Model) -> Model:
    """The model as `eval()` leaves it."""
    config = [
        msgspec.structs.replace(each, value=0.0) if "drop" in each.key and each.value else each
        for each in model.config
    ]
    if not any("drop" in each.key for each in config):
        config.append(Dimension(key="dropout", value=0.0))
    return msgspec.structs.replace(model, config=tuple(config))


def _adapters_without_dropout(method: Method) -> Method:
    """The adapters as `eval()` leaves them."""
    if method.lora is None:
        return method
    return msgspec.structs.replace(method, lora=msgspec.structs.replace(method.lora, dropout=0.0))


def evaluate(step: Step) -> None:
    """One forward without gradients beside the predictions that were collected before it."""
    sink, setup = step.sink, evaluating(step.setup)
    sink.phase(Phase.EVAL, "evaluation")
    collected = _collected(step.setup.job, setup)
    held = sink.alloc(collected, Category.ACTIVATIONS, "collected predictions") if collected else -1
    front = pieces.front(setup, _NO_GRAD)
    inputs = sink.alloc(front.inputs, Category.ACTIVATIONS, "batch")
    step.sharding.forward_begin()
    handles = sink.play(front.piece.forward, [sink.alloc(0, Category.UNKNOWN, "nothing")])
    left = [(handles[each.block], each.dropped) for each in front.left if handles[each.block] >= 0]
    hidden = first = handles[front.piece.out]
    for number in range(setup.layers):
        unit = step.units.blocks[number]
        sink.phase(Phase.EVAL, f"block {number}")
        step.sharding.forward_before(unit)
        mode = Mode(
            grad=False,
            requires=False,
            pinned=number == 0 and front.held,
            frozen=setup.frozen_in(number),
            kind=setup.kind(number),
        )
        piece = pieces.block(setup, mode)
        handles = sink.play(piece.forward, [hidden])
        hidden = handles[piece.out]
        step.sharding.forward_after(unit)
    if front.held:
        sink.free(first)
    for handle, dropped in left:
        if dropped:
            sink.free(handle)
    sink.phase(Phase.EVAL, "output layer and loss")
    head = pieces.head(setup, _NO_GRAD)
    handed = [hidden] if head.model is None else sink.play(head.model, [hidden])
    handles = sink.play(head.forward, handed)
    for each in head.kept:
        if handles[each] >= 0:
            sink.free(handles[each])
    step.sharding.forward_end()
    for handle in (*(each for each, dropped in left if not dropped), inputs):
        sink.free(handle)
    _concatenate(step, collected, held)


def _logits_bytes(setup: Setup) -> int:
    """Bytes of one batch's logits as the loop collects them: fp32 where the model's output is cast to it."""
    dims = setup.dims
    item = 4 if setup.code.outputs_to_fp32 or setup.precision.startswith("fp32") else 2
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
    """Keys and values of all layers for every sequence (times beams), one layer's copied as it grows, the last token's
    logits in fp32; beams reorder a layer's cache by copying it."""
    setup, sink = evaluating(step.setup), step.sink
    evaluation, dims = setup.job.evaluation, setup.dims
    sink.phase(Phase.GENERATE, "the last new token")
    sequences = dims["b"] * max(1, evaluation.beams)
    item = 2 if ITEM_BYTES[setup.job.precision.compute] <= 2 else 4
    heads = -(-dims.get("kv_heads", dims.get("heads", 1)) // setup.job.parallel.tensor)
    layer = 2 * sequences * heads * dims["head_dim"] * (dims["s"] + evaluation.generate) * item
    step.sharding.forward_begin()
    cache = sink.alloc(layer * setup.layers, Category.ACTIVATIONS, "keys and values (cache)")
    unit = max(step.units.blocks, default=0)
    step.sharding.forward_before(unit)
    grown = sink.alloc(layer, Category.TEMPORARIES, "a layer's keys and values as they grow")
    logits = sink.alloc(
        3 * sequences * dims.get("vocab", 0) * 4, Category.TEMPORARIES, "logits of the last token"
    )
    for handle in (logits, grown, cache):
        sink.free(handle)
    step.sharding.forward_after(unit)
    step.sharding.forward_end()


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
