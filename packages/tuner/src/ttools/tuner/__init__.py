"""Will tune Triton kernels: search spaces, offline pruning, search, measurement.

Not built yet: this package has no public API.
"""
