"""The live machine: what a process, a GPU and a host say of their memory at this moment.

`model.py` has the readings, `base.py` the two narrow interfaces (`Device`: the allocator of this process; `Machine`:
all GPUs and processes of this host), and each other file one implementation of one of them.
"""
