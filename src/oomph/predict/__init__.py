"""What a job will need, without torch: from recipes that tracing made."""
