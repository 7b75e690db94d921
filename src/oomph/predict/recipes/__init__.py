"""The recipes that come with oomph: a JSON file per family, written by tools/make_recipes.py, and their reader."""
