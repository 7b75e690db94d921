"""Programs: what the operators of a model's parts do, recorded from the real classes (docs/programs.md)."""

from __future__ import annotations

from oomph.predict.programs.load import Program, ProgramFile, Section, Variant, load, names

__all__ = ["Program", "ProgramFile", "Section", "Variant", "load", "names"]
