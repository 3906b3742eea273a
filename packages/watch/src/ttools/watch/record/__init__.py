"""Runs of launches that record: natively with watches, and as Python beside it."""
