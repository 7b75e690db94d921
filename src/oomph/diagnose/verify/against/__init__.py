"""A prediction held against a recorded run: `oomph plan JOB --against RUN`. `compare.against` does it."""
