"""Will profile Triton kernels: Proton sessions, data frames, counts joined to times.

Not built yet: this package has no public API.
"""
