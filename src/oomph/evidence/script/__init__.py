"""Training scripts and configurations as they stand in a file, read without running them (libcst)."""

from __future__ import annotations

from oomph.evidence.script.read import read_script
from oomph.evidence.script.source import Config, Script

__all__ = ["Config", "Script", "read_script"]
