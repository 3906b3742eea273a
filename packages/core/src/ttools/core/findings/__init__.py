"""Findings as data, and what excludes them from a report: rules, comments, baselines."""
