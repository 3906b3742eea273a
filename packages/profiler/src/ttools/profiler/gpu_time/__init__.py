"""How long launches take on a GPU, from what they do: bounds and projections."""
