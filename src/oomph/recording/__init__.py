"""Live runs: the recorder in a script, the recorder around a command, and what is kept of both."""
