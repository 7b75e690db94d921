"""Stacks of a trace: frames of the traced program only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from oomph.tracing.child.launch import _BOOT
from oomph.tracing.recorder.stacks import BOOT

_SHOW = """
import sys
from oomph.tracing.recorder.stacks import StackRecorder
print([one["name"] for one in StackRecorder().take(sys._getframe(0))])
"""


def names(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_text_that_starts_the_child_is_no_frame_and_the_users_own_is(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SHOW)
    run = f"import runpy\nrunpy.run_path({str(script)!r})"
    assert names(run) == "['<module>', '<module>']"
    assert names(f"{BOOT} = True\n{run}") == "['<module>']"
    assert f"\n{BOOT} = " in _BOOT
