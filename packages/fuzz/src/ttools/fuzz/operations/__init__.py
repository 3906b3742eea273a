"""The operations of random kernels, a file for each family: what they compute, and their text."""
