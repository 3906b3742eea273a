"""The memory of a launch: known addresses, regions of parameters, bytes never written, state."""
