"""`ttools profile` with `compare`, `sweep` and `view`: commands, options and reports."""
