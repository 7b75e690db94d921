"""Recording from inside of trainers: one small file for each library."""
