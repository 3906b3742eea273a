"""Shadow values of the check `accuracy`: exact values, and the sources of rounding errors."""
