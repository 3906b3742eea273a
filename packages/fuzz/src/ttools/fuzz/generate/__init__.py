"""Random kernels: `generate(seed)` of `kernel` makes the same one each time."""
