"""Profiles of kernels on a GPU: times by Proton, combined with counts made on the host."""
