"""Times of launches on a GPU, derived from their work: lower bounds and projections."""
