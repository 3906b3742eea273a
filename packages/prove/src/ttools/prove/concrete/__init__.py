"""Evaluation of a launch at one size, for all programs together and without memory."""
