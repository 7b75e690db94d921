"""Recipes: what training a class of models does to memory, as data. Pure: no torch, no files.

`model` has the types, `expression` and `grammar` the sizes, `instantiate` makes events of a recipe, `timeline` plays
them through the simulated allocator.
"""
