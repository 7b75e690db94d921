"""The engines, one file each: local processes, Slurm, Ray."""
