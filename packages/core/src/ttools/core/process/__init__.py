"""The Python process of the user's program: its script, its waiting, its end, its children."""
