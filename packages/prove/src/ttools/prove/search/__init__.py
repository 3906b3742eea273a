"""Search for the smallest sizes at which launches fail."""
