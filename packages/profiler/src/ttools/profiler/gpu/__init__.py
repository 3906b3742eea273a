"""Profiles of kernels that run on a GPU: Proton's times, joined to counts made on the host."""
