"""A launch at all sizes at once: what its accesses need, and whether that is proved."""
