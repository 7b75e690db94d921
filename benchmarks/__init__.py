"""Programs that measure oomph: how fast it is, and how near its predictions are to published measurements."""
