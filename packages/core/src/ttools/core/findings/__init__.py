"""Findings as data, and ways to exclude them from a report: rules, comments, baselines."""
