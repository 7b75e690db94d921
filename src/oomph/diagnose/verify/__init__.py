"""Did a recorded run do what it should: `oomph verify`. One check per file of checks/; `run.verify` asks them all."""
