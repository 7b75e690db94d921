"""Programs: what the operators of a model's parts do, recorded from the real classes (docs/programs.md)."""
