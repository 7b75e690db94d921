"""Scaled dot product attention: which kernel a GPU would run, and what that saves and allocates."""
