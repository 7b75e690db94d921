"""Controlled experiments: short runs of a job with one setting changed, and the engines that run them."""
