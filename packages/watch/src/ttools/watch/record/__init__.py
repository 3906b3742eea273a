"""Recording of variables in launches, which run as native code or, for comparison, as Python."""
