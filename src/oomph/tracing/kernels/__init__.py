"""What CUDA kernels allocate beside their results: the kernel memory model, one rule per file in `rules/`."""
