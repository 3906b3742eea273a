"""Findings as data, and what keeps one out of a report: rules, comments, baselines."""
