"""Synthetic memory snapshots with known truth, and what oomph says about them.

A scripted job (`job`, `scenarios`) makes its requests of the simulated allocator (`device`), which notes the events
that PyTorch would write; `written` makes a file of them in the format of any PyTorch version. What the script did is
the truth (`truth`), by the script's own sums: nothing here asks oomph's diagnosis.
`python -m tests.snapshots` writes one.
"""
