"""Many files read by many processes: on this machine, on Ray or on Slurm, by the engines that also run trials."""
