"""Compares the verdicts of `ttools reproduce` with the bits that a GPU computes."""
