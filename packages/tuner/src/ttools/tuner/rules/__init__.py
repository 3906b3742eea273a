"""Rules made of what was measured: a small decision tree that chooses among few configurations."""
