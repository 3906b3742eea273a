"""Analyses of locks and signals, based on the sync records of a launch."""
