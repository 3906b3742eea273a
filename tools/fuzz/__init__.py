"""Campaigns of random kernels: `python -m tools.fuzz`."""
