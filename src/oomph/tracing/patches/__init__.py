"""Places in torch's own Python code that cannot take fake CUDA tensors as they are."""
