"""GPUs: what they are called, what they have. Pure look-ups in shipped tables."""
