"""FullyShardedDataParallel: runs as it is, but for the places where it steps around dispatch modes.

Source: torch/distributed/fsdp/_common_utils.py, `_no_dispatch_record_stream`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from oomph.tracing.ranks.everywhere import everywhere
from oomph.tracing.recorder.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Lets FSDP1 mark the streams of its flat parameters."""
    recorder.patches.when_imported(
        "torch.distributed.fsdp._common_utils", lambda module: _streams(recorder, module)
    )


def _streams(recorder: Recorder, module: ModuleType) -> None:
    def record_stream(_original: Any, tensor: Any, stream: Any) -> None:
        recorder.record_stream(tensor, int(stream.stream_id))

    everywhere(recorder, module, "_no_dispatch_record_stream", record_stream)
