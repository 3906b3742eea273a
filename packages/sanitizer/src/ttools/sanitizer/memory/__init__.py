"""The memory of a launch: known addresses, parameters' regions, unwritten bytes, saved contents."""
