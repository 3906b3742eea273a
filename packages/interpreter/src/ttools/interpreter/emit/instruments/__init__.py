"""Emission of the code that checks, counters and watches add to a kernel."""
