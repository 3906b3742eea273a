"""Analyses of a kernel before it is emitted."""
