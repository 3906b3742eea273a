"""Finds the variables of the source among the values of a compiled kernel."""
