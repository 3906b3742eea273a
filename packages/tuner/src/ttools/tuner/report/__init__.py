"""Tunings as a page and as pandas frames."""
