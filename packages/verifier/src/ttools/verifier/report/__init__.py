"""Reports of a verification: text, test files, and texts for issues."""
