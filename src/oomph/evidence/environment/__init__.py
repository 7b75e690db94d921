"""Machines: what is read of this one, or of what people paste of another one."""
