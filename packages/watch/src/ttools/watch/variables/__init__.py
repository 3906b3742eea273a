"""Search for the variables of a kernel's source among the values of the compiled kernel."""
