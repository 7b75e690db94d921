"""What surrounds a job on this machine, beside its GPUs: one narrow reader a file, each of a root folder ("/" unless a
test gives another). Nothing is changed, and nothing is asked over a network, but by `metadata`, which is asked for."""
