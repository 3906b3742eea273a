"""`ttools profile`, `profile compare` and `profile view`: commands, options and reports."""
