"""`ttools interpret`: the command, its options and reports."""
