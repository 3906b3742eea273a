"""The schedule of a function: which tensors are stored in memory, and which are recomputed."""
