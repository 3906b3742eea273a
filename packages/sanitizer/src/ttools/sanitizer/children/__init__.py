"""One report of several processes: what children of a run's process write, what it reads."""
