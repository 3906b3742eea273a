"""What a configuration takes of a GPU and what it should cost there, before it is timed."""
