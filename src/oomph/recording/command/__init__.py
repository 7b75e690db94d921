"""`oomph record -- CMD`: a command that is started, watched from outside, and explained when it fails.

The command runs as it would without: its signals, its terminal, its exit code are its own. What is kept beside it goes
into a run directory; whatever cannot be kept is said once on stderr, and the command goes on.
"""
