"""Comparison of implementations over shapes: times, speed-ups and differences of results."""
