"""Domains of integers: what analyses know of values, each a small class for one solver."""
