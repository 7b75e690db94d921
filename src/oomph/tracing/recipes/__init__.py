"""Recipes are made here: real training steps are traced at several sizes, and what repeats is found in them.

`stream` is what was seen, `loops` finds what repeats with the layers, `slots` which alloc each free belongs to, `fit`
the sizes as expressions, `assemble` puts a recipe together and proves it on every stream it was made from. Only
`observe` and `families` run torch.
"""
