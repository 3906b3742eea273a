"""Answers whether results have equal bits from run to run, in all configurations and batches."""
