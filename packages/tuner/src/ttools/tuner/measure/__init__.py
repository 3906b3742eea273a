"""Verification against the reference and timing of configurations, one at a time."""
