"""In which order configurations are tried, and when a search may end."""
