"""What is to be traced: the command line after `--`, understood as the shell, Python and the launchers do.

No torch here: the parent process reads command lines, and it stays light.
"""

from oomph.tracing.target.model import Kind, Launcher, Target
from oomph.tracing.target.overrides import override
from oomph.tracing.target.parse import parse

__all__ = ["Kind", "Launcher", "Target", "override", "parse"]
