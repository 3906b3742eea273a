"""Hints that the data contradict: what each says, where it is, and where breaking it matters."""
