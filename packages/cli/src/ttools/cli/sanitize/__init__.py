"""`ttools sanitize`: the command, its options, and how a run ends."""
