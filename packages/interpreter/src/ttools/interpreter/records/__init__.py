"""Launches in files: recording, replaying, and running `.ttir` files with textual arguments."""
