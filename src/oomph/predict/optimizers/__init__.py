"""What an optimizer's step allocates: one file per kind."""
