"""Code that checks, counts and watches add to a kernel."""
