"""The GPU that is not there: a CUDA device that PyTorch accepts, and `torch.cuda` answered from the simulation."""
