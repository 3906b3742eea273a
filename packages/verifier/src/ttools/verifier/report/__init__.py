"""What a verification says: as JSON and as text, and as test files."""
