"""Verification against the reference, and timing, of one configuration at a time."""
