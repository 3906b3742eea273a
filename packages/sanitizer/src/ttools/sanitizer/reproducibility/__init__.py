"""Hashes of the order of evaluation: which results have equal bits on a GPU."""
