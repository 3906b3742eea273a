"""`ttools tune`: the command, its options and reports, and the display of stores."""
