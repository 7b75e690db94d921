"""One rank of several: `torch.distributed` with a group of which only this process is there.

docs/tracing-ranks.md says what stands in for the other ranks, and what was compared with real runs.
"""
