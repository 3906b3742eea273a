"""Verification by replay: what a candidate did, as data, repeated in a trusted process."""
