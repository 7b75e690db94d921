"""Recorded traces, played again on the simulated allocator: to check the simulation, and to ask what if."""

from oomph.memory.replay.judge import blind, exact
from oomph.memory.replay.result import Replay
from oomph.memory.replay.start import Start, start_state

__all__ = ["Replay", "Start", "blind", "exact", "start_state"]
