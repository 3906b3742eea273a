"""What is made of recordings: summaries, comparisons, and both as text and JSON."""
