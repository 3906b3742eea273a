"""Mutation of real kernels: changes of source or launch that must not change the result."""
