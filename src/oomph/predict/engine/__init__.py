"""Plays programs: what operators allocate in forward, what autograd saves, what backward allocates."""
