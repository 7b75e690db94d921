"""What a run directory's records prove, beside what the job printed."""
