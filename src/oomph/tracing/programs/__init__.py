"""Makes programs (docs/programs.md): runs a real model class on the simulated GPU, once for each of several sets of
dimensions, and writes down its operators with sizes as expressions and with the moments when Python drops tensors.

`record` is the way in: it takes any module class and a function that runs its forward pass.
"""
