"""Reports of child processes, which the parent process merges into its own report."""
