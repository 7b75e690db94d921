"""Pipeline stages (torch.distributed.pipelining): each rank runs its own, with neighbours that are not there.

Before the first micro-batch, stages tell each other the shapes that they hand on (pipelining/stage.py). Gradients have
the shapes of the outputs that they are of; the inputs of a stage are known from the rank before it, if that was traced
first (`mail`), or from `input_args` of `PipelineStage`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from oomph.tracing.errors import TraceRefused
from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Prepares pipeline stages."""
    recorder.patches.when_imported(
        "torch.distributed.pipelining.stage", lambda module: _stages(recorder, module)
    )


def _refusal(recorder: Recorder, stage: Any) -> TraceRefused:
    return TraceRefused(
        f"Rank {recorder.settings.rank} runs pipeline stage {stage.stage_index}, whose input shapes stage "
        f"{stage.stage_index - 1} would send: trace the ranks one after another with --rank all, or give PipelineStage "
        "its input_args."
    )


def _stages(recorder: Recorder, module: ModuleType) -> None:
    def created(original: Any, stage: Any, *args: Any, **kwargs: Any) -> None:
        original(stage, *args, **kwargs)
        recorder.note(
            f"Rank {recorder.settings.rank} runs pipeline stage {stage.stage_index} of {stage.num_stages}; "
            "other stages need other memory."
        )

    def received(original: Any, stage: Any, src_stage: int) -> Any:
        if src_stage > stage.stage_index:
            outputs = stage._stage_meta.outputs  # noqa: SLF001 - where the stage keeps what it found out
            return module._StageBackwardMeta(backward_metas=module._derive_grad_metas(outputs))  # noqa: SLF001
        meta = original(stage, src_stage)
        if meta is None:
            raise _refusal(recorder, stage)
        return meta

    def inferred(original: Any, stage: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(stage, *args, **kwargs)
        except AssertionError as error:
            if "NoneType" in str(error):
                raise _refusal(recorder, stage) from None
            raise

    recorder.patches.wrap(module._PipelineStageBase, "__init__", created)  # noqa: SLF001 - the class of all stages
    stage_class = module.PipelineStage
    if hasattr(stage_class, "_recv_meta"):
        recorder.patches.wrap(stage_class, "_recv_meta", received)
    elif hasattr(stage_class, "_shape_inference"):
        recorder.patches.wrap(stage_class, "_shape_inference", inferred)
