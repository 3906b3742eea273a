"""`ttools cache`."""
