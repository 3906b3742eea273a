"""Compares the engine with a GPU, operation by operation and type by type."""
