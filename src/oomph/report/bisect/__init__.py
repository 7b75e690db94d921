"""The answer of `oomph bisect`: text, and JSON of a published shape."""
