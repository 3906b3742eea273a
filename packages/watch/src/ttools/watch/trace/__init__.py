"""Traces: their format in a file or memory, and recorded values as NumPy arrays."""
