"""Judges oomph on a folder of labelled logs: `python -m tests.conformance logs FOLDER`."""
