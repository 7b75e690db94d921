"""A run directory: what `oomph record` and `oomph.record()` leave behind, and how it is read. docs/runs.md.

`read.read_run(path)` gives a `data.RunData`; `read.is_run(path)` says whether a path is one. `model` has the records.
"""
