"""How well accesses to global memory suit a GPU: from the addresses of a launch on the host."""
