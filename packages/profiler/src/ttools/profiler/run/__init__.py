"""A profiled run: where launches come from, how often they are made, how long they take."""
