"""The Triton backend plugin named `cpu`.

Triton imports `compiler` and `driver` of this package whenever it is imported itself, unguarded:
those two import only the standard library and Triton at their top, everything else on first use.
"""
