"""Verification by replay: records the calls of a candidate as plans, and executes the plans."""
