"""The parts of benchmarks/gpu/validate.py."""
