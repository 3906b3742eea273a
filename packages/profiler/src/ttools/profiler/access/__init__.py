"""Efficiency of accesses to a GPU's global memory, from the addresses of a launch on the host."""
