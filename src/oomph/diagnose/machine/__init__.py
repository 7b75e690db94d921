"""`oomph doctor`: what is wrong with a machine, with its settings, or with a script, before or after a failure."""
