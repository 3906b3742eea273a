"""Evaluation of a launch at all sizes: the conditions for its accesses, and their proofs."""
