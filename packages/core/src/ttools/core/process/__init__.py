"""Running the user's program in this process, and starting and stopping its children."""
