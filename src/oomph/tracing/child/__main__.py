"""`python -m oomph.tracing.child REQUEST.json`; started by `launch.run`."""

from __future__ import annotations

import sys
from pathlib import Path

from oomph.tracing.child.main import main

if __name__ == "__main__":
    main(Path(sys.argv[1]))
