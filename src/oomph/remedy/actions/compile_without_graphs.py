"""torch.compile without CUDA graphs."""

from __future__ import annotations

from oomph.diagnose.case import Case
from oomph.diagnose.model import Finding, Step
from oomph.remedy.actions.base import Action
from oomph.remedy.setup import setup_of
from oomph.units import format_bytes

_SETTINGS = {
    "transformers": 'torch_compile_mode="default",   # or "max-autotune-no-cudagraphs"',
}
_PLAIN = 'model = torch.compile(model, mode="default")   # or "max-autotune-no-cudagraphs"'


class CompileWithoutGraphs(Action):
    """mode="default" or max-autotune-no-cudagraphs."""

    code = "compile-without-graphs"
    title = "Compile without CUDA graphs"

    def applies(self, case: Case) -> bool:
        """Unless a snapshot shows that no private pool holds anything."""
        return case.inside is None or case.inside.private_reserved_bytes > 0

    def step(self, case: Case, finding: Finding) -> Step:
        del finding
        pool = case.ledger.private_pool_bytes
        held = f"{format_bytes(pool)} are allocated in private pools of CUDA graphs. " if pool else ""
        if case.inside is not None:
            held = f"Private pools of CUDA graphs hold {format_bytes(case.inside.private_reserved_bytes)}. "
        text = (
            f"{held}Each captured graph owns a pool whose memory nothing else may use, and every new input "
            "shape is captured again. Modes reduce-overhead and max-autotune turn graphs on; the default "
            "mode compiles the same kernels without them, at some launch overhead."
        )
        return self.make(
            text,
            _SETTINGS.get(setup_of(case).dialect, _PLAIN),
            outcomes=(
                (
                    "If the pools are gone and it fits",
                    "for the speed of graphs, capture one shape only (pad the inputs)",
                ),
                (
                    "If it still fails without private pools",
                    "the job itself needs less memory: smaller micro-batch",
                ),
            ),
        )
