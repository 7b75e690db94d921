"""One file per format: its keys, and what they mean for a job."""
