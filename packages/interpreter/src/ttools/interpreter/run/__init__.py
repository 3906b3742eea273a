"""Runs of `interpret()`: their launches, options and observers."""
