"""Lowering of operations, one file per family; each file registers its rules with the emitter."""
