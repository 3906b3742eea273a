"""What is asked of Triton's front end, and what it refuses."""
