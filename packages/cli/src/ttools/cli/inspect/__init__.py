"""`ttools inspect`: the command and its options."""
