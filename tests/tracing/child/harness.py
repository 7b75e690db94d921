"""Runs a script as the child does: with a session that needs no torch (`light`), or with the real one (`real`)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from oomph.hardware.gpus import Gpu
from oomph.tracing.child.request import Limits, Outcome, Request, read_outcome, write
from oomph.tracing.settings import TraceSettings
from oomph.tracing.target import Kind, Target

REPOSITORY = Path(__file__).resolve().parents[3]
GIB = 1 << 30
A100 = Gpu("A100-40GB", (8, 0), 108, 2048, 40 * GIB)

_LIGHT = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.tracing.child.light import LightSession
from oomph.tracing.child import main, process
from oomph.tracing.child.request import read_request, write
del sys.path[0]
process.prepare()
request = read_request(Path({request!r}))
outcome = main.execute(request, LightSession)
write(outcome, Path(request.outcome))
main.finish(0)
"""


def request_of(folder, source=None, *, limits=None, local_world=None, target=None, **settings):
    """A request for `train.py` in `folder`, with this source."""
    if source is not None:
        (folder / "train.py").write_text(textwrap.dedent(source))
    return Request(
        target=target or Target(Kind.SCRIPT, "train.py", program="train.py"),
        settings=TraceSettings(**{"gpu": A100, "torch": (2, 13), **settings}),
        folder=str(folder),
        out=str(folder / "out.pickle"),
        outcome=str(folder / "outcome.json"),
        limits=limits or Limits(),
        local_world=local_world,
    )


def light(request, **environment):
    """(outcome, stdout, stderr) of a run without torch."""
    folder = Path(request.folder)
    asked = folder / "request.json"
    write(request, asked)
    done = subprocess.run(
        [sys.executable, "-c", _LIGHT.format(root=str(REPOSITORY), request=str(asked))],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )
    outcome = read_outcome(folder / "outcome.json")
    assert isinstance(outcome, Outcome), done.stderr
    return outcome, done.stdout, done.stderr
