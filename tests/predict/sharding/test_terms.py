"""Every block that a strategy allocates has a page that explains it."""

from __future__ import annotations

from pathlib import Path

from oomph.job.model import Batch, Checkpointing, Job, Optimizer, Parallel
from oomph.phases import Phase
from oomph.predict.peak_sink import PeakSink
from oomph.predict.sharding import strategy_for
from oomph.predict.sharding.terms import PAGES, page_of
from tests.predict.sharding.driving import Stack, backward, forward
from tests.predict.sharding.test_choose import CLASSES

_DOCS = Path(__file__).parents[3] / "docs" / "terms"


class _Names(PeakSink):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def alloc(self, size_bytes, category, name, stream=0):
        self.names.add(name)
        return super().alloc(size_bytes, category, name, stream)


def test_each_name_has_a_page_and_each_page_is_there():
    seen = set()
    for strategy in CLASSES:
        for offload in (False, strategy.startswith(("fsdp", "zero"))):
            for orig in (False, True):
                job = Job(
                    parallel=Parallel(
                        strategy=strategy,  # type: ignore[arg-type]
                        data=4,
                        offload_parameters=offload and strategy != "zero2",
                        use_orig_params=orig,
                    ),
                    optimizer=Optimizer(offload="cpu" if offload else "none"),
                    batch=Batch(accumulation=2),
                    checkpointing=Checkpointing(mode="full"),
                )
                sink = _Names()
                units = Stack(compute=2, mixed=True, width=64, hidden=96).units
                sharding = strategy_for(job, units, sink)
                sink.phase(Phase.LOAD)
                sharding.setup()
                for _ in range(2):
                    forward(sharding, units)
                    backward(sharding, sink, units)
                sharding.step_begin()
                seen |= sink.names
    assert {name for name in seen - {"gradients"} if not page_of(name)} == set()
    assert {page for page in PAGES.values() if not (_DOCS / f"{page}.md").is_file()} == set()
    assert page_of("something else") == ""
