"""What is trained: the job, and what reads it from the files that people have."""
