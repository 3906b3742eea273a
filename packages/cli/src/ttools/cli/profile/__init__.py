"""`ttools profile` and its `compare`, `sweep` and `view`: commands, options and reports."""
