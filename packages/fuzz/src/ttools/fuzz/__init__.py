"""Fuzzing of the engine: random Triton kernels are run and compared with an independent oracle."""
