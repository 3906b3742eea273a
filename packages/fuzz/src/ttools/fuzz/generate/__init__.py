"""Random kernels: `kernel.generate(seed)` always makes the same kernel from the same seed."""
