"""Jobs from the files that people have."""
