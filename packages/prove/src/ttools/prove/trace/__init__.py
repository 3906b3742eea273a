"""Launches of a script, with their numbers as expressions over the sizes of its tensors."""
