"""Which tensors live in memory, and which are computed where they are used."""
