"""Parameters, gradients and their copies on their way between ranks: one file per strategy."""
