"""The answers of `oomph verify` and `oomph plan --against`, as text, JSON and JUnit XML."""
