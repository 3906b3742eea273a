"""The checks: one module for each, with the findings that it reports."""
