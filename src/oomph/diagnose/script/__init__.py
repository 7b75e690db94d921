"""`oomph doctor --script`: calls that cannot work, or that do not do what is believed, found on the syntax tree."""
