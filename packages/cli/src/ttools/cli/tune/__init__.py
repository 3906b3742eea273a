"""`ttools tune`: the command, its options and reports, and what it reads from stores."""
