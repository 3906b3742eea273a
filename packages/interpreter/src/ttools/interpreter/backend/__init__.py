"""The Triton backend plugin named `cpu`.

Triton imports `compiler` and `driver` of this package when it is imported itself, without catching
errors. Therefore these modules import only the standard library and Triton at their top, and other
modules on first use.
"""
