"""Random Triton kernels, what they must compute, and where the engine computes something else."""
