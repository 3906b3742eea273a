"""Exact arithmetic on mathematical integers, and proofs about them."""
