"""What can be tried: configurations, and the spaces that users write them as."""
