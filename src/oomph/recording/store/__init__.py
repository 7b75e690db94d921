"""Where runs are kept: folders of run directories on any file system, and an index over them.

    store = Store(["./oomph-runs", "s3://bucket/runs"])
    store.rows(query="phase.backward.peak > 30GiB and outcome = oom")
    store.find("last-failed")

The directories are the truth; the index (SQLite) is a cache that is made anew whenever it is missing, stale, damaged or
of another version.
"""

from __future__ import annotations

from oomph.recording.store.store import Store

__all__ = ["Store"]
