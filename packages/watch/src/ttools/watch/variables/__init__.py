"""Which values of a compiled kernel are variables of its source, and which the user names."""
