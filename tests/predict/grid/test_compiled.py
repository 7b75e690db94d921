"""torch.compile, which a trace runs eagerly: a compiled model's forward keeps less than the eager one's."""

from __future__ import annotations

import msgspec
import pytest

from oomph.predict.compose.run import compose, setup_of
from oomph.predict.frameworks import variants
from oomph.predict.peak_sink import PeakSink
from tests.predict.grid.cases import Case


@pytest.mark.parametrize("precision", ["bf16", "fp32", "bf16-autocast"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_less_is_kept_than_by_the_eager_model(precision: str, checkpointing: bool) -> None:
    peaks = []
    for compiled in (False, True):
        job = Case("compiled", precision=precision, checkpointing=checkpointing).job()
        job, sink = msgspec.structs.replace(job, compile=compiled), PeakSink()
        compose(setup_of(job, variants(job)[0]), sink)
        peaks.append({str(phase.value): peak.bytes for phase, peak in sink.peaks().items()})
    eager, compiled_peaks = peaks
    assert compiled_peaks["forward"] <= eager["forward"]
    assert compiled_peaks["optimizer"] == eager["optimizer"]
