"""The measuring of one test: what the fixture gives, and what the report says."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from oomph.errors import UsageError
from oomph.phases import Phase
from oomph.pytest_plugin.limits import Limit
from oomph.pytest_plugin.measured import Measured, Meter, Peak
from oomph.units import format_bytes

_NO_TORCH = "The oomph mark needs PyTorch: pip install 'oomph[torch]'."
#: Categories that are listed.
_MOST = 6


class OomphRun:
    """What `oomph_run` is in a test. `kind` is "cuda", "trace" or "cpu" once it is known; `device` is where the test is
    to put its tensors ("cuda" on a GPU and on a traced one, else "cpu")."""

    def __init__(self, asked: str, gpu: str = "") -> None:
        self._asked = asked
        self._gpu = gpu
        self._kind = ""
        self._meter: Meter | None = None
        self._measured: Measured | None = None

    @property
    def kind(self) -> str:
        """What measures. Raises UsageError where PyTorch is not installed."""
        if not self._kind:
            self._kind = _chosen(self._asked)
        return self._kind

    @property
    def device(self) -> str:
        """For torch: `torch.zeros(3, device=oomph_run.device)`."""
        return "cpu" if self.kind == "cpu" else "cuda"

    def phase(self, name: str) -> AbstractContextManager[None]:
        """`with oomph_run.phase("forward"): ...`: where the phases that are found by themselves are not the right ones.
        Raises UsageError before the test's own code has begun."""
        return self._running().phase(name)

    def watch(self, model: object = None, optimizer: object = None) -> None:
        """Has the phases of a model and of an optimizer found by hooks on them, which tell a forward from what is
        around it."""
        self._running().watch(model, optimizer)

    @property
    def peaks(self) -> dict[str, int]:
        """Allocated bytes of each phase at its peak, by its name. Raises UsageError before the test has ended."""
        return {phase.value: peak.allocated for phase, peak in self._found().phases.items()}

    @property
    def peak_bytes(self) -> int:
        """The largest of them; 0 where nothing was allocated."""
        return max(self.peaks.values(), default=0)

    # -- for the plugin ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The test's own code begins."""
        if self.kind == "trace":
            from oomph.pytest_plugin.traced import TraceMeter

            self._meter = TraceMeter(self._gpu)
        else:
            from oomph.pytest_plugin.live import LiveMeter

            self._meter = LiveMeter(self.kind)
        self._meter.start()

    def stop(self, error: BaseException | None) -> bool:
        """It has ended; whether its exception was only the end of the measuring."""
        assert self._meter is not None, "it was not started"
        self._measured, ended = self._meter.stop(error)
        return ended

    def against(self, limits: Sequence[Limit]) -> str:
        """Why the test fails; "" where it does not."""
        found = self._found()
        told = []
        if found.ran_out:
            told.append(f"memory ran out on the traced GPU: {found.ran_out}")
        elif limits and not any(peak.allocated for peak in found.phases.values()):
            other = (
                "--oomph-device cpu counts tensors of the CPU"
                if self.kind == "trace"
                else "it used another device"
            )
            told.append(f"nothing was allocated on the device, so no limit can be judged ({other})")
        else:
            told += [sentence for limit in limits if (sentence := _judged(found, limit))]
        return "\n".join([*told, "", *self._lines()]) if told else ""

    def text(self) -> str:
        """What was measured, for the test's report."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        found = self._found()
        before = f"; {format_bytes(found.start_bytes)} were allocated before" if found.start_bytes else ""
        lines = [f"Memory {found.where}{before}."]
        for phase, peak in found.phases.items():
            size, held = format_bytes(peak.allocated), format_bytes(peak.reserved)
            lines.append(f"  {phase.value:10} {size:>12} allocated {held:>12} reserved")
        shares = [(name, size) for name, size in found.categories() if size]
        if shares:
            lines.append("At the highest peak were alive:")
            lines += [f"  {name:16} {format_bytes(size):>12}" for name, size in shares[:_MOST]]
        return [*lines, *found.notes]

    def _running(self) -> Meter:
        if self._meter is None or self._measured is not None:
            raise UsageError("oomph_run measures the test's own code, and not its fixtures")
        return self._meter

    def _found(self) -> Measured:
        if self._measured is None:
            raise UsageError("oomph_run knows peaks when the test has ended")
        return self._measured


def _chosen(asked: str) -> str:
    """cuda where there is one, else trace; and that there is what was asked for."""
    try:
        import torch
    except ImportError:
        raise UsageError(_NO_TORCH) from None
    if asked != "auto":
        return asked
    return "cuda" if torch.cuda.is_available() else "trace"


def _judged(found: Measured, limit: Limit) -> str:
    """Why one limit is not kept; "" where it is."""
    peaks = found.phases
    if limit.phase is not None and limit.phase not in peaks:
        seen = ", ".join(phase.value for phase in peaks) or "none"
        return f"no {limit.phase.value} phase was seen, so its limit cannot be judged (phases: {seen})"
    candidates: list[tuple[Phase, Peak]] = (
        list(peaks.items()) if limit.phase is None else [(limit.phase, peaks[limit.phase])]
    )
    phase, peak = max(candidates, key=lambda pair: pair[1].most(limit.counter))
    most = peak.most(limit.counter)
    if most <= limit.size_bytes:
        return ""
    least = peak.allocated if limit.counter == "allocated" else peak.reserved
    over = f"{format_bytes(most - limit.size_bytes)} over the limit of {format_bytes(limit.size_bytes)}"
    if least <= limit.size_bytes:
        at_least = format_bytes(least)
        return f"{phase.value} may have {format_bytes(most)} {limit.counter}, {over}; {at_least} at the least"
    return f"{phase.value} had {format_bytes(most)} {limit.counter}, {over}"
