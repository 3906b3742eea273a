"""Runs of `interpret()`: launches, options, observers, guards and statistics."""
