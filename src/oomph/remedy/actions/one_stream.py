"""All allocations on one stream."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action

_PASTE = (
    "x = torch.empty(shape, device='cuda')      # allocated on the current stream ...\n"
    "side.wait_stream(torch.cuda.current_stream())\n"
    "with torch.cuda.stream(side):\n"
    "    x.copy_(host, non_blocking=True)       # ... only the work runs on the side stream\n"
    "torch.cuda.current_stream().wait_stream(side)"
)


class OneStream(Action):
    """Memory is allocated on the main stream, work may run elsewhere."""

    code = "one-stream"
    title = "Allocate on one stream"

    def applies(self, case: Case) -> bool:
        """Unless a snapshot shows that one stream holds all."""
        if case.inside is None:
            return True
        return len({pool.stream for pool in case.inside.device.pools if pool.reserved_bytes}) > 1

    def step(self, case: Case, finding: Finding) -> Step:
        del case, finding
        text = (
            "A block belongs to the stream that was current when it was allocated, and its free memory serves "
            "only that stream. Allocate before entering `with torch.cuda.stream(...)`, and let side streams "
            "(copies, prefetching, offloading) only work on what is there."
        )
        return self.make(
            text,
            _PASTE,
            outcomes=(
                ("If other streams hold next to nothing now", "that was it"),
                ("If they still do", "the snapshot's holders name the lines that allocate there"),
            ),
        )
