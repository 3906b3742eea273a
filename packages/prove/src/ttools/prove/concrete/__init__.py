"""Evaluation of a launch at one size: its programs are computed together, without memory."""
