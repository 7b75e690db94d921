"""Recorded runs as text, Markdown and JSON: lists, one run, runs held against each other."""
