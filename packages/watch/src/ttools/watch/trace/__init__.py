"""Traces: the blocks of a file or memory, and recorded values as NumPy arrays."""
