"""`ttools verify`: the command and its options."""
