"""Recording of launches: natively with watches, and as Python for comparison."""
