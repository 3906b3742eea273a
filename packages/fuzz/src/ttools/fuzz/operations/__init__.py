"""The operations of random kernels: their Triton source and their evaluation in NumPy."""
