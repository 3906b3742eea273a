"""Verification by replay: records a candidate's calls as plans and executes the plans."""
