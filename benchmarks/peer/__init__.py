"""Other programs that predict memory, asked about the same measured points.

One file per program. Each says what of a row the program can be told and raises `CannotError` with a sentence where
there is no way to tell it what matters (a quantised base, adapters, tensor parallelism). Where the program has no word
for a setting and takes its nearest one, the answer says so: `stand_ins`. These files run in an environment of their
own and import nothing of oomph.
"""
