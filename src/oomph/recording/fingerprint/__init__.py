"""What decides how much memory a run takes, collected once per rank at its start.

    record = fingerprint(model, arguments=args, data=dataset, rank=3)
    write(record, run_directory)

One file here per source. Nothing is imported that the script has not imported, nothing asks the network, no program is
started, and no secret is kept: environment variables by an allow-list, values that look like secrets masked.
"""

from __future__ import annotations

from oomph.recording.fingerprint.collect import fingerprint, write

__all__ = ["fingerprint", "write"]
