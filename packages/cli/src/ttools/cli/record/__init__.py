"""`ttools record`."""
