"""Lowering of operations, one file per family; each registers its rules when it is imported."""
