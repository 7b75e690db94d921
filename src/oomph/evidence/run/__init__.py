"""A run directory: what `oomph record` and `oomph.record()` leave behind, and how it is read. docs/runs.md."""
