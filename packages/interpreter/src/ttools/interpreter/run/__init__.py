"""Runs of `interpret()`: what is launched, how, and who observes it."""
