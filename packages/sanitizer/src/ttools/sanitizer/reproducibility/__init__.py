"""Hashes of the order of evaluation, which show the results that have equal bits on a GPU."""
