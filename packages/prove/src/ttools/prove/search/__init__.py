"""The search for the least sizes at which launches are wrong."""
