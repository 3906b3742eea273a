"""Implementations beside each other over shapes: times, speed-ups and how far results differ."""
