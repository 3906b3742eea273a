"""Files of problems, trials and winners: the store, the lock file, and changes between stores."""
