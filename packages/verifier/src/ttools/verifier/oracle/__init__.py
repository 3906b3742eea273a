"""Evaluates the reference in double precision, and compares results within tolerances."""
