"""One rule of the kernel memory model per file. `registry.all_rules` finds them."""
