"""Will find defects in Triton kernels: out-of-bounds accesses, races, uninitialised values.

Not built yet: this package has no public API.
"""
