"""Launches on disk: recorded, replayed, or described by a `.ttir` file and arguments in text."""
