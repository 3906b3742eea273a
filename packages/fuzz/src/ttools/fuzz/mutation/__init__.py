"""Mutation of real kernels: changes of source or launch that must leave every bit of the result."""
