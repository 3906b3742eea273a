"""Mutants of real kernels: changed texts and launches that must not change a bit."""
