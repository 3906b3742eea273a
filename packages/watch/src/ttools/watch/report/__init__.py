"""Reports of recordings: summaries and comparisons, as text and JSON."""
