"""The `ttools` command: argument parsing, console rendering and exit codes."""
