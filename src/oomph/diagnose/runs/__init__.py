"""Runs held against each other: what a run is known by, what changed, and which change matters for memory."""
