"""Configurations to try, and the spaces in which users describe them."""
