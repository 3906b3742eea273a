"""Search for the least sizes at which launches fail."""
