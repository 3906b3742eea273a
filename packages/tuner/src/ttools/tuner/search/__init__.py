"""Search strategies: the order in which configurations are tried, and the end of a search."""
