"""The process that runs the script: what the parent asks of it, how it is started, and how it ended."""
