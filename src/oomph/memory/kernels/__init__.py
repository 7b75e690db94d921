"""What CUDA kernels allocate beside their results, as arithmetic: for traces (rules) and for recipes (expressions)."""
