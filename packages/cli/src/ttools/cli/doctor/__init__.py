"""`ttools doctor`."""
