"""The order in which a GPU combines the elements of a reduction, read from generated code."""
