"""Programs of denoisers (docs/diffusion.md): a run is cut at modules of any kind, and a part says of each tensor that
another part made which part that was."""
