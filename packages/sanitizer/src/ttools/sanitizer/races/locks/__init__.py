"""Locks and signals of a launch, from records of its synchronising operations."""
