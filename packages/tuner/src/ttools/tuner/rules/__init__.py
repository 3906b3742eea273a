"""Rules derived from stored tunings: a decision tree selects one of a few configurations."""
