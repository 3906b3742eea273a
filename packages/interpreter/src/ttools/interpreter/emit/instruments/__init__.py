"""What checks, counts and watches add to emitted code."""
