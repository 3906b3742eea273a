"""Commands for work on the repository itself; not installed."""
