"""Reduction of kernels that do not compile to the smallest ones that fail in the same way."""
