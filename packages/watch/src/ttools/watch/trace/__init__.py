"""Traces: their binary format, and access to the recorded values as NumPy arrays."""
