"""A launch at one size: its programs run without memory, side by side."""
