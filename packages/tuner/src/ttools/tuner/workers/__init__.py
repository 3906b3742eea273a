"""Worker processes that run configurations, so that a crash or a hang ends only the worker."""
