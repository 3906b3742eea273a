"""The process that compares: runs the plan, names failures, makes them small."""
