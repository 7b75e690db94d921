"""PyTorch memory snapshots: read without running anything that is in them, checked, and turned into columns."""

from oomph.evidence.snapshot.caps import Caps
from oomph.evidence.snapshot.formats import Era
from oomph.evidence.snapshot.model import Annotation, DeviceSnapshot, Snapshot
from oomph.evidence.snapshot.read import from_bytes, read
from oomph.evidence.snapshot.settings import allocator_settings
from oomph.evidence.snapshot.traced import Columns, Ended, Traced

__all__ = [
    "Annotation",
    "Caps",
    "Columns",
    "DeviceSnapshot",
    "Ended",
    "Era",
    "Snapshot",
    "Traced",
    "allocator_settings",
    "from_bytes",
    "read",
]
