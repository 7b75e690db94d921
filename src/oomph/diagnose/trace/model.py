"""What a traced run needs and whether it fits, as plain data. All sizes are bytes."""

from __future__ import annotations

from dataclasses import dataclass

from oomph.diagnose.model import Certainty
from oomph.diagnose.snapshot.model import Growth, SnapshotReport
from oomph.memory.prediction import Prediction
from oomph.phases import Phase


@dataclass(frozen=True)
class PhaseRow:
    """Where a phase has its peak: the positions of the events after which the most was allocated and reserved."""

    phase: Phase
    allocated_at: int
    reserved_at: int


@dataclass(frozen=True)
class StepPeak:
    """The most of one optimizer step (from 0): later ones differ from the first by what it left behind."""

    step: int
    allocated_bytes: int
    reserved_bytes: int


@dataclass(frozen=True)
class Part:
    """Blocks of one label: a module ("model.layers.*.mlp"), or an operator. `bytes` and `blocks` were alive at the
    moment of the report, `largest_bytes` is the largest of the whole trace, `times` how many it had in all."""

    label: str
    bytes: int
    blocks: int
    largest_bytes: int
    times: int


@dataclass(frozen=True)
class DeviceTrace:
    """One device of a traced process.

    `orders` is how many orders of addresses the prediction's range comes from. `first_step` and `fullest_step` are
    None where the trace saw no step; `fullest_step` is the one of the later steps that needs the most. `activations`
    (by module) and `temporaries` (by operator) are largest first. `ran_out`: a request of the trace itself found no
    memory, and that ended the job.
    """

    index: int
    prediction: Prediction
    orders: int
    phases: tuple[PhaseRow, ...] = ()
    first_step: StepPeak | None = None
    fullest_step: StepPeak | None = None
    activations: tuple[Part, ...] = ()
    temporaries: tuple[Part, ...] = ()
    ran_out: bool = False

    @property
    def surely_fails(self) -> bool:
        """Whether memory runs out whatever the addresses are, and without what kernels may need on top."""
        return self.ran_out or (self.prediction.surely_fails and not self.prediction.peak.uncertain_bytes)

    @property
    def peak_phase(self) -> Phase | None:
        """The phase whose upper end is the highest: the first of several; None where nothing was allocated."""
        peaks = self.prediction.phases
        return max(
            peaks, key=lambda phase: (peaks[phase].most_bytes, peaks[phase].allocated_bytes), default=None
        )


@dataclass(frozen=True)
class Unruled:
    """An operator of which the kernel memory model says nothing: how often it ran, and its largest result."""

    operator: str
    times: int
    largest_bytes: int


@dataclass(frozen=True)
class Ending:
    """The exception with which the script ended by itself."""

    kind: str
    text: str
    traceback: str
    out_of_memory: bool


@dataclass(frozen=True)
class TraceReport:
    """The answer of `oomph trace` for one process.

    `command` is what was traced, in words. `gpu` and `torch` are what the answer speaks for; `installed_torch` is the
    PyTorch that ran. `snapshot` is the same report as of a real run's snapshot: what was alive at the moment, why a
    request failed, what if. `devices` has an entry for each of its devices. `suppressed` is what would have been
    written or sent, `assumptions` what stood in for values that only a GPU computes. `unfinished` is why the script did
    not come to its end, or to the steps that were wanted ("": it did, or `failed` tells).
    """

    command: str
    gpu: str
    torch: str
    installed_torch: str
    rank: int
    world: int
    capacity_bytes: int | None
    steps_done: int
    operators: int
    seconds: float
    snapshot: SnapshotReport
    devices: tuple[DeviceTrace, ...]
    suppressed: tuple[str, ...] = ()
    unruled: tuple[Unruled, ...] = ()
    uncertain_bytes: int = 0
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failed: Ending | None = None
    unfinished: str = ""

    @property
    def shown(self) -> DeviceTrace | None:
        """The device to look at first; None where nothing was allocated."""
        if not self.devices:
            return None
        return self.devices[self.snapshot.shown if 0 <= self.snapshot.shown < len(self.devices) else 0]

    @property
    def fits(self) -> bool | None:
        """False where a device runs out or may, None where no capacity is known, else True."""
        if self.failed is not None and self.failed.out_of_memory:
            return False
        answers = {device.prediction.fits for device in self.devices}
        return False if False in answers else None if None in answers or not answers else True

    @property
    def growth(self) -> Growth | None:
        """What will fill the device that is shown if the job goes on as it did, where that is more than a guess."""
        place = self.snapshot.shown
        growth = self.snapshot.devices[place].growth if 0 <= place < len(self.snapshot.devices) else None
        if growth is None or not growth.leaks or growth.leaks[0].certainty is Certainty.POSSIBLE:
            return None
        return growth if growth.fails_at_step is not None else None

    @property
    def exit_code(self) -> int:
        """1 where memory runs out or may, or will at the rate at which it grows; 2 where the script ended with an
        exception of its own, so that what it would have needed is not known; else 0."""
        if self.fits is False or (self.growth is not None and self.failed is None):
            return 1
        return 2 if self.failed is not None and not self.failed.out_of_memory else 0
