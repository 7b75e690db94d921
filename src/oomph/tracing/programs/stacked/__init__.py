"""Programs of models with several lists of layers: encoder and decoder, two towers, an image encoder before a language
model (docs/programs.md, "Several stacks")."""
