"""Real PyTorch code on fake CUDA tensors: what a GPU would have allocated, without a GPU.

`session.Session` is the way in; everything else serves it. torch is imported inside functions only.
"""
