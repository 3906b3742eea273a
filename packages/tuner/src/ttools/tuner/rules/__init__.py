"""Rules that are derived from stored tunings: a decision tree selects among few configurations."""
