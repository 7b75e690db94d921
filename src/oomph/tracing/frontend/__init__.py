"""Ways of older versions of torch's Python and C++ front end, for traces that speak for them: one per file.

The installed torch runs the program. Where the version that a trace speaks for did something else with memory, its way
is put in place of the installed one's.
"""
