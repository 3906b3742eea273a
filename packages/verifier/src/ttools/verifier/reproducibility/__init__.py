"""Determines whether results are bitwise equal in all runs, configurations and batches."""
